"""Loopy belief propagation."""
