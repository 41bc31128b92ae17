"""What is asked of a fit before it is returned: accident, misfit, other models, far predictions."""
