"""Maximum likelihood for factor graphs: interchangeable gradients and one loop around them."""
