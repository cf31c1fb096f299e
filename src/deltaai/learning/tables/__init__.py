"""Bayesian networks from tables: columns, structure, counts, expectation maximisation."""
