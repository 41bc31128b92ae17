"""Fits of classes: how noisy the labels are, what each should be, the linear model."""
