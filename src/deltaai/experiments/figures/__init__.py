"""The figures, one file each; no algorithms."""
