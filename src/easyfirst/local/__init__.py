"""What runs where the rows are: pure steps over one batch, and the passes they are made of."""
