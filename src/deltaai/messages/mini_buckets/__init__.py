"""Weighted mini-buckets: an upper bound on log Z, and samples from the messages."""
