"""The textbook network of the sprinkler, the rain and the wet grass, for examples and the demo."""

from __future__ import annotations

from deltaai.models.factor_graph import FactorGraph
from deltaai.models.factors import ConditionalTable
from deltaai.models.variable import Variable

STATES = ("no", "yes")


def sprinkler() -> FactorGraph:
    """Four variables: clouds make rain likelier and the sprinkler idle; either wets the grass.

    With neither rain nor sprinkler the grass is never wet: the model has a zero.

    Examples
    --------
    >>> import torch
    >>> model = sprinkler()
    >>> [variable.name for variable in model.variables]
    ['cloudy', 'sprinkler', 'rain', 'wet_grass']
    >>> cloudy_rain = torch.tensor([[1, 0, 1, 1]])  # cloudy, no sprinkler, rain, wet grass
    >>> round(model.log_score(cloudy_rain).exp().item(), 3)  # 0.5 · 0.9 · 0.8 · 0.9
    0.324
    """
    names = ("cloudy", "sprinkler", "rain", "wet_grass")
    return FactorGraph(
        [Variable(name, STATES) for name in names],
        [
            ConditionalTable("cloudy", [], [0.5, 0.5]),
            ConditionalTable("sprinkler", ["cloudy"], [[0.5, 0.5], [0.9, 0.1]]),
            ConditionalTable("rain", ["cloudy"], [[0.8, 0.2], [0.2, 0.8]]),
            ConditionalTable(
                "wet_grass",
                ["sprinkler", "rain"],
                [[[1.0, 0.0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]],
            ),
        ],
    )
