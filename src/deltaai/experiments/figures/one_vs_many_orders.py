"""Figure "Delta-AI trained on a single full DAG vs. partial inference on multiple DAGs".

All forms make the same number of updates: what is compared is what one costs in likelihood when q
must know every order, so the limit of time is only there to end runs that would take too long.
"""

from __future__ import annotations

from deltaai.experiments.harness.image_figure import image_experiment

_LONG = {"mnist": 7200.0, "digits": 1800.0}

EXPERIMENT = image_experiment(
    "one-vs-many-orders",
    "Δ-AI: one order and many",
    "NLL over training time of a latent-variable model whose q knows one order, or all of them.",
    methods=("delta", "delta-many", "delta-partial"),
    data_sets=("digits", "mnist"),
    time_limits={
        "smoke": {"mnist": 2.0, "digits": 1.0},
        "small": _LONG,
        "paper": {"mnist": 43200.0, "digits": 7200.0},
    },
    updates={
        "small": {"mnist": 5000, "digits": 5000},
        "paper": {"mnist": 100_000, "digits": 20_000},
    },
    notes="All make the same number of updates (`updates` in the settings), if time allows.",
)
