"""Gaussian fields, exactly: a sparse precision matrix, its factor, and what follows from both."""
