"""How good samples and models are: MMD, chain diagnostics, likelihood, bounds, images."""

from deltaai.metrics.chains import ChainDiagnostics, chain_diagnostics
from deltaai.metrics.digit_classifier import (
    DigitClassifier,
    classifier_accuracy,
    prediction_entropy,
    train_classifier,
)
from deltaai.metrics.exact_truth import GroundTruth, ground_truth
from deltaai.metrics.importance_bound import importance_bound, importance_bounds
from deltaai.metrics.likelihood import Likelihood, negative_log_likelihood
from deltaai.metrics.mmd import linear_mmd, linear_mmd_distance, median_bandwidth, rbf_mmd
from deltaai.metrics.real_mmd import (
    real_linear_mmd,
    real_linear_mmd_distance,
    real_rbf_mmd,
    real_rbf_mmd_distance,
    reference_bandwidth,
)

__all__ = [
    "ChainDiagnostics",
    "DigitClassifier",
    "GroundTruth",
    "Likelihood",
    "chain_diagnostics",
    "classifier_accuracy",
    "ground_truth",
    "importance_bound",
    "importance_bounds",
    "linear_mmd",
    "linear_mmd_distance",
    "median_bandwidth",
    "negative_log_likelihood",
    "prediction_entropy",
    "rbf_mmd",
    "real_linear_mmd",
    "real_linear_mmd_distance",
    "real_rbf_mmd",
    "real_rbf_mmd_distance",
    "reference_bandwidth",
    "train_classifier",
]
