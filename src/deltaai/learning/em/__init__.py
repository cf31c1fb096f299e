"""Latent-variable models by variational EM: p, q that sees a row, E-steps, and the loop."""
