"""What changes with the step: the learning rate and the target's inverse temperature.

Both are plain functions of the settings and the step, counted from zero, so that a resumed run
needs no state of theirs. Nothing here touches an optimizer or a model.
"""

from __future__ import annotations

import math

from deltaai.training.config import TrainingConfig


def learning_rate_at(config: TrainingConfig, step: int) -> float:
    """What every learning rate is multiplied by at a step; 1 at the height of training.

    A multiplier rather than a rate, because parts of q may have rates of their own. Past the
    last step it stays what it was there.

    >>> config = TrainingConfig(steps=100, schedule="step", step_decay_at=(0.5, 0.75))
    >>> [round(learning_rate_at(config, step), 6) for step in (0, 49, 50, 75)]
    [1.0, 1.0, 0.1, 0.01]
    """
    step = min(step, max(config.steps - 1, 0))
    if step >= config.warmup_steps:
        return _decay(config, step)
    # One more than the step, so that the first update is not lost to a zero.
    return _decay(config, step) * (step + 1) / config.warmup_steps


def _decay(config: TrainingConfig, step: int) -> float:
    if config.schedule == "constant":
        return 1.0
    if config.schedule == "step":
        # Rounded, for 0.7 * 10 is a little more than 7 and would come one step late.
        num_drops = sum(step >= round(at * config.steps) for at in config.step_decay_at)
        return float(config.step_decay_factor**num_drops)
    num_before = config.warmup_steps  # the cosine starts at the height that they reach
    progress = max(step - num_before, 0) / max(config.steps - num_before, 1)
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def polish_rate_at(config: TrainingConfig, step: int) -> float:
    """Learning rate of a polishing update, counted from the first of these."""
    progress = step / max(config.polish_steps, 1)
    return config.polish_rate * 0.5 * (1.0 + math.cos(math.pi * progress))


def inverse_temperature_at(config: TrainingConfig, step: int) -> float:
    """What the target's log score is multiplied by at a step: a line up to 1, and then 1.

    >>> config = TrainingConfig(anneal_steps=10, anneal_start=0.2)
    >>> [round(inverse_temperature_at(config, step), 6) for step in (0, 5, 10, 500)]
    [0.2, 0.6, 1.0, 1.0]
    """
    if step >= config.anneal_steps:
        return 1.0  # exactly: rounding must not leave the target a little off
    progress = step / config.anneal_steps
    return config.anneal_start + (1.0 - config.anneal_start) * progress


def temperature_at(config: TrainingConfig, step: int) -> float:
    """Temperature of the policy at a step: it stays, or falls to 1 while the target is annealed.

    >>> config = TrainingConfig(policy="annealed", temperature=10, anneal_steps=10)
    >>> [round(temperature_at(config, step), 6) for step in (0, 5, 10, 500)]
    [10.0, 5.5, 1.0, 1.0]
    """
    if config.policy != "annealed":
        return config.temperature
    if step >= config.anneal_steps:
        return 1.0
    return 1.0 + (config.temperature - 1.0) * (1.0 - step / config.anneal_steps)
