"""What runs where the rows are: pure steps over one batch, and the design matrix they share."""
