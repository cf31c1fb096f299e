"""E-steps, one small file each."""
