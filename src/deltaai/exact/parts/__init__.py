"""Many small models at once: sums and expected counts, one operation a shape."""
