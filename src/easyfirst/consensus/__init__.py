"""The driver's side of a fit: rounds, the inner solve, stopping, and what is recorded."""
