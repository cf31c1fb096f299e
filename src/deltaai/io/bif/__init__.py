"""BIF, the interchange format of Bayesian networks: reading and writing."""
