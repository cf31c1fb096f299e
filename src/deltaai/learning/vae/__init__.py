"""The variational autoencoder of the paper: a baseline without a graph."""
