"""How far samples and samplers are from the target: MMD, chain diagnostics, likelihood."""

from deltaai.metrics.chains import ChainDiagnostics, chain_diagnostics
from deltaai.metrics.exact_truth import GroundTruth, ground_truth
from deltaai.metrics.likelihood import Likelihood, negative_log_likelihood
from deltaai.metrics.mmd import linear_mmd, linear_mmd_distance, median_bandwidth, rbf_mmd

__all__ = [
    "ChainDiagnostics",
    "GroundTruth",
    "Likelihood",
    "chain_diagnostics",
    "ground_truth",
    "linear_mmd",
    "linear_mmd_distance",
    "median_bandwidth",
    "negative_log_likelihood",
    "rbf_mmd",
]
