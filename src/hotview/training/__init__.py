"""Training: rows in, steps, what is recorded, and how it stops."""
