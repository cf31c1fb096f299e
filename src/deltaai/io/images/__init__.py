"""Sets of images: files in, pixels between 0 and 1 out."""
