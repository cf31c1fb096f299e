"""Goodness of fit of samples to known probabilities."""

import numpy as np
import torch
from scipy.stats import chi2

# Chance that one correct sampler is called wrong. With a few dozen such tests in the whole suite,
# and fixed seeds, a failure means a defect.
FALSE_FAILURE = 1e-4


def chi_square_p_value(states, samples, probabilities):
    """P-value of samples against listed states; rare states are pooled into one cell.

    Returns 0 if a state of probability zero was drawn.
    """
    index = {tuple(row): position for position, row in enumerate(states.tolist())}
    counts = np.zeros(len(states))
    unique, frequency = torch.unique(samples, dim=0, return_counts=True)
    for row, count in zip(unique.tolist(), frequency.tolist(), strict=True):
        counts[index[tuple(row)]] = count
    expected = np.asarray(probabilities) * len(samples)
    if counts[expected == 0].sum() > 0:
        return 0.0
    is_common = expected >= 5
    observed = np.append(counts[is_common], counts[~is_common].sum())
    wanted = np.append(expected[is_common], expected[~is_common].sum())
    keep = wanted > 0
    statistic = ((observed[keep] - wanted[keep]) ** 2 / wanted[keep]).sum()
    return float(chi2.sf(statistic, keep.sum() - 1))
