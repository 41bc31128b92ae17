"""Plain robust fits of some rows, and whether their residuals depend on X."""
