"""Inference in sparse graphical models."""
