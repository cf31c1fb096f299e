"""Many rows of evidence at once: tables with an axis of rows."""
