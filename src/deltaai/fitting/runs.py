"""A run of training, set up: q, where its states come from, and what is done with them."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Num
from torch import Tensor

from deltaai.errors import ConfigError, Setting
from deltaai.fitting.sampler import Sampler
from deltaai.fitting.spec import SamplerSpec
from deltaai.sampling import (
    AnyEvidence,
    ChainValues,
    DataValues,
    EvidenceKind,
    FixedEvidence,
    Source,
    Values,
)
from deltaai.training import Trainer, TrainingConfig, phases_of


def set_up_run(
    sampler: Sampler,
    *,
    states: Num[Tensor, "row var"] | None = None,
    most_observed: int | None = None,
    identity: Mapping[str, str | int | float] | None = None,
) -> Trainer:
    """Set up the training of a sampler, as its settings say.

    Parameters
    ----------
    sampler : its q is trained in place.
    states : data, if the settings take values from there.
    most_observed : observed variables in training at most, for any evidence.
    identity : what a checkpoint must agree on.
    """
    units = sampler.proposal.target.units
    if states is not None and units is not None:
        states = units.inward(states.T.double()).T
    values = _values(sampler.config, states)
    share = sampler.config.values_share
    evidence = _evidence(sampler.spec, sampler.model.num_variables, most_observed)
    source = Source(sampler.proposal, sampler.orders, evidence, values, share)
    return Trainer(phases_of(sampler.config, source), sampler.config, identity or {})


def _values(config: TrainingConfig, states: Num[Tensor, "row var"] | None) -> Values | None:
    if config.values == "data":
        if states is None:
            raise ConfigError(
                "states to train at are to come from data, but there is none: give ",
                Setting("states"),
            )
        return DataValues(states)
    return ChainValues() if config.values == "chains" else None


def _evidence(
    spec: SamplerSpec, num_variables: int, most_observed: int | None
) -> EvidenceKind | None:
    if spec.evidence is None:
        return None
    if spec.evidence == "any":
        most = default_most_observed(num_variables) if most_observed is None else most_observed
        return AnyEvidence(most, num_variables)
    return FixedEvidence(spec.evidence)


def default_most_observed(num_variables: int) -> int:
    """A third of all variables, but one at least."""
    return -(-num_variables // 3)
