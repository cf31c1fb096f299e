"""What runs a figure: parts in processes of their own, results, curves, pictures, summaries."""
