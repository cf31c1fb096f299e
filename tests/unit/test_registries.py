"""Registries: what is registered is found, and what cannot be is refused at once."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from deltaai.conditionals import (
    FAMILIES,
    Layout,
    LocalConditionals,
    build_conditionals,
    register_family,
)
from deltaai.errors import ConfigError, ConversionError, FormatError, ModelError
from deltaai.exact import Enumeration, exact
from deltaai.experiments import Experiment, experiment_names, find_experiment, register_experiment
from deltaai.experiments.harness import registry as figures
from deltaai.fitting import fit, load_sampler
from deltaai.io import FORMATS, read, register_format, write
from deltaai.mcmc import KERNELS, GibbsKernel, build_kernel, register_kernel
from deltaai.models import (
    FACTOR_KINDS,
    FactorGraph,
    SpinCoupling,
    UnslicedGroup,
    Variable,
    model_to_tensors,
    register_factor,
    zoo,
)
from deltaai.objectives import OBJECTIVES, DeltaObjective, register_objective
from deltaai.registry import checked_callable
from deltaai.training import TrainingConfig, objective_names

LATTICE = zoo.ising_lattice(side=2, sigma=0.2, seed=0)


@pytest.fixture(autouse=True)
def _as_before():
    """Leave every registry as it was."""
    registries = (OBJECTIVES, FAMILIES, FORMATS, KERNELS, FACTOR_KINDS, figures.MODULES)
    before = [dict(each) for each in registries]
    yield
    for each, kept in zip(registries, before, strict=True):
        each.clear()
        each.update(kept)


def experiment(name):
    return Experiment(
        name, "t", "d", "gap", "gap", lambda scale, seeds: [], lambda part: iter(()), {}, {}, ()
    )


REGISTERED = {
    "objective": lambda name, **more: register_objective(name, lambda q, s: None, **more),
    "family": lambda name, **more: register_family(name, lambda layout, s: None, **more),
    "kernel": lambda name, **more: register_kernel(name, GibbsKernel, **more),
    "experiment": lambda name, **more: register_experiment(experiment(name), **more),
    "format": lambda name, **more: register_format(f".{name}", lambda source: LATTICE, **more),
}


@pytest.mark.parametrize("kind", REGISTERED)
def test_a_name_is_taken_once_unless_it_is_replaced(kind):
    register = REGISTERED[kind]
    register("mine")
    with pytest.raises(ConfigError, match=rf"there is an? {kind} '\.?mine' already"):
        register("mine")
    register("mine", replace=True)


@pytest.mark.parametrize("kind", REGISTERED)
@pytest.mark.parametrize("name", ["", " mine", "a\nb"])
def test_a_name_is_a_word(kind, name):
    with pytest.raises(ConfigError, match=r"the name of|the suffix is"):
        REGISTERED[kind](name)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ConfigError, match=r"the builder is 3: give a function of \(model\)"):
        checked_callable("the builder", 3, "(model)")


def test_an_objective_is_a_choice_of_settings_and_is_given_them():
    seen = []

    def build(proposal, settings):
        seen.append(settings)
        return DeltaObjective()

    with pytest.raises(ConfigError, match="objective is 'mine'; one of delta"):
        TrainingConfig(objective="mine")
    register_objective("mine", build)
    assert objective_names()[-2:] == ("mine", "sub-dags")
    sampler = fit(LATTICE, objective="mine", alternatives="all", decay=0.5, steps=2, seed=7)
    assert sampler.config.objective == "mine"
    assert (seen[0].is_every_alternative, seen[0].decay, seen[0].seed) == (True, 0.5, 7)
    with pytest.raises(ConfigError, match="a task of its own"):
        register_objective("sub-dags", build)


class Pairwise(DeltaObjective):
    each_evidence = 2


def test_an_objective_that_compares_samples_needs_some_with_the_same_evidence():
    register_objective("mine", lambda proposal, settings: Pairwise())
    states = torch.zeros(8, 4, dtype=torch.long)
    with pytest.raises(ConfigError, match="objective 'mine' compares samples that share"):
        fit(LATTICE, objective="mine", evidence="any", states=states, steps=2)


def test_a_family_is_a_choice_of_fit_and_of_files(tmp_path):
    def build(layout, settings):
        return LocalConditionals(layout, settings.hidden, generator=settings.generator)

    with pytest.raises(ConfigError, match="family is 'mine'; one of local, table, mae"):
        fit(LATTICE, family="mine")
    layout = Layout.build([2], [()])
    with pytest.raises(ConfigError, match="no family 'locl'; did you mean 'local'"):
        build_conditionals("locl", layout, 3, takes_masks=False)
    register_family("mine", build, hidden=5, learning_rate=2e-3)
    sampler = fit(LATTICE, family="mine", steps=2)
    assert (sampler.spec.hidden, sampler.config.learning_rate) == (5, 2e-3)
    sampler.save(tmp_path / "s.dai")
    del FAMILIES["mine"]
    with pytest.raises(FormatError, match="family 'mine'"):
        load_sampler(tmp_path / "s.dai")


def test_a_format_is_read_and_written_by_its_suffix(tmp_path):
    with pytest.raises(FormatError, match=r"expected \.uai, \.bif, \.dai, \.uai\.gz or \.bif\.gz$"):
        read(tmp_path / "m.mine")
    with pytest.raises(FormatError, match=r"\.bif\.gz; did you mean '\.bif'\?"):
        write(LATTICE, tmp_path / "m.biff")
    register_format(".mine", lambda source: zoo.ising_lattice(int(source.text), sigma=0.2, seed=0))
    (tmp_path / "m.MINE").write_text("3")
    assert read(tmp_path / "m.MINE").num_variables == 9
    with pytest.raises(FormatError, match=r"only read; expected \.uai, \.bif, "):
        write(LATTICE, tmp_path / "n.mine")
    for suffix in ("mine", ".a.b", ".A", "."):
        with pytest.raises(ConfigError, match="the suffix is"):
            register_format(suffix, lambda source: LATTICE)
    for suffix, what in ((".gz", "models"), (".dai", "text"), (".evid", "models")):
        with pytest.raises(ConfigError, match=f"are no {what}"):
            register_format(suffix, lambda source: LATTICE)


def test_a_kernel_is_found_by_its_name():
    assert list(KERNELS) == ["gibbs", "gwg", "hmc", "mala", "tempering"]
    real = FactorGraph([Variable("x", support=(0, 1))])
    for name in KERNELS:
        generator = torch.Generator().manual_seed(0)
        kernel = build_kernel(name, real if name in ("hmc", "mala") else LATTICE)
        assert kernel.step(kernel.init(3, generator), generator)[0].num_chains == 3
    with pytest.raises(ConfigError, match="no kernel 'gibs'; did you mean 'gibbs'"):
        build_kernel("gibs", LATTICE)


def test_an_experiment_is_found_by_its_name():
    mine = experiment("mine-too")
    register_experiment(mine)
    assert find_experiment("mine_too") is mine
    assert experiment_names()[-1] == "mine-too"
    for name in ("a/b", "mine_too", "a--b"):
        with pytest.raises(ConfigError, match="the name of an experiment"):
            register_experiment(experiment(name))


@dataclass(frozen=True)
class Count:
    """log φ = weight times the number of ones."""

    scope: tuple[str, ...]
    weight: float


@dataclass(frozen=True, eq=False)
class CountGroup(UnslicedGroup):
    weights: Tensor

    @property
    def sizes(self):
        return (2,) * self.arity

    @property
    def dtype(self):
        return self.weights.dtype

    def log_values_at(self, factor, values):
        return self.weights[factor] * values.long().sum(0)


def build_counts(alike):
    weights = torch.tensor([factor.weight for factor in alike.factors], dtype=alike.dtype)
    return CountGroup(alike.ids, alike.scopes, weights)


def counted(size=4):
    names = [f"x{i}" for i in range(size)]
    factors = [SpinCoupling("x0", "x1", 0.3), Count(tuple(names), 0.5), Count(tuple(names[1:]), -1)]
    return FactorGraph([Variable(name) for name in names], factors)


def test_a_kind_of_factor_is_one_of_a_model(tmp_path):
    with pytest.raises(ModelError, match="factor 1 is a Count, not a factor: make its class one"):
        counted()
    register_factor(Count, build_counts)
    model = counted()
    assert [type(group).__name__ for group in model.groups][1:] == ["CountGroup"] * 2
    oracle = Enumeration(model)
    x = oracle.states
    expected = 0.3 * (2 * x[:, 0] - 1) * (2 * x[:, 1] - 1) + 0.5 * x.sum(1) - x[:, 1:].sum(1)
    torch.testing.assert_close(model.log_score(x), expected.double())
    assert float(exact(model).log_partition()) == pytest.approx(float(oracle.log_partition()))
    given = model.condition({"x2": 1})
    kept = x[x[:, 2] == 1]
    torch.testing.assert_close(given.log_score(kept[:, [0, 1, 3]]), expected[x[:, 2] == 1].double())
    write(model, tmp_path / "m.uai")  # as tables
    torch.testing.assert_close(read(tmp_path / "m.uai").log_score(x), expected.double())
    with pytest.raises(ConversionError, match="a factor over 8192 joint states"):
        model_to_tensors(counted(13))


def test_a_kind_of_factor_checks_its_factors():
    def check(factor, sizes, where):
        if factor.weight < 0:
            raise ModelError(f"{where}: its weight is negative")

    register_factor(Count, build_counts, check)
    with pytest.raises(ModelError, match=r"factor 2 over \(x1, x2, x3\): its weight is negative"):
        counted()
    with pytest.raises(ConfigError, match="Count is a kind of factor already"):
        register_factor(Count, build_counts)
    register_factor(Count, lambda alike: None, replace=True)
    with pytest.raises(ModelError, match="the builder of Count gave None, not a FactorGroup"):
        counted()
