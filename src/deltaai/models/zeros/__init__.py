"""Zeros of factors: found, propagated, taken out of a model, or floored."""
