"""What students see before they hand in: a check that earns what the grader gives, and a receipt. No marks."""
