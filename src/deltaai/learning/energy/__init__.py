"""Energies of real rows, learned together with a sampler that follows them."""
