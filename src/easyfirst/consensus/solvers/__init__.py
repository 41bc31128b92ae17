"""The solve of one round: matrices, products, Newton steps, consensus."""
