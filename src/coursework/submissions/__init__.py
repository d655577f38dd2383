"""What students hand in: whose it is, what becomes of a file, and what learning platforms call things. No grading."""
