"""The fences around a submission: what they promise, of what they are made, and how they are tried. No grading."""
