"""What users set for torch as a whole: a type or a device for every tensor. Ours stay ours.

Nothing is switched back and forth at the front door, because torch's defaults belong to the whole
process, other threads included. Instead every tensor that the library makes says what it is, which
one test reads in the source; others ask the whole public face under each default, and expect
the very same numbers.
"""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.models import zoo

SOURCE = Path(dai.__file__).parent
# Functions of torch that choose a device, and those that also choose a type, unless told.
CHOOSES_DEVICE = {"arange", "randint", "randperm", "tril_indices", "triu_indices", "range"}
CHOOSES_BOTH = {"zeros", "ones", "empty", "full", "rand", "randn", "eye", "linspace", "logspace"}
CHOOSES_BOTH |= {"tensor", "as_tensor", "asarray", "scalar_tensor", "Linear", "LayerNorm"}
CHOOSES_BOTH |= {"Embedding", "Bilinear", "BatchNorm1d", "normal"}


def _untold(path: Path):
    tree = ast.parse(path.read_text())
    # A device that is passed on must not be None either.
    perhaps_none = {
        call
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and _may_lack_device(function)
        for call in ast.walk(function)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, owner = node.func.attr, ast.unparse(node.func.value)
        told = {
            keyword.arg
            for keyword in node.keywords
            if node not in perhaps_none or ast.unparse(keyword.value) != "device"
        }
        if owner not in {"torch", "nn", "torch.nn"} or None in told:
            continue
        needed = {"device", "dtype"} if name in CHOOSES_BOTH else {"device"}
        if name in CHOOSES_BOTH | CHOOSES_DEVICE and needed - told:
            yield f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"


def _may_lack_device(function: ast.FunctionDef):
    given, defaults = function.args.args, function.args.defaults
    pairs = list(zip(given[len(given) - len(defaults) :], defaults, strict=True))
    pairs += list(zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True))
    return any(
        name.arg == "device" and default is not None and ast.unparse(default) == "None"
        for name, default in pairs
    )


def test_every_tensor_says_its_type_and_its_device():
    untold = [line for path in sorted(SOURCE.rglob("*.py")) for line in _untold(path)]
    assert not untold, "give these a dtype and a device:\n" + "\n".join(untold)


@pytest.fixture(
    params=["float64", "bfloat16", "meta", pytest.param("float16", marks=pytest.mark.slow)]
)
def default(request):
    """One thing that a user may have set, from here on."""
    if request.param == "meta":
        before = torch.get_default_device()
        torch.set_default_device("meta")
        yield
        torch.set_default_device(None if before.type == "cpu" else before)
    else:
        before = torch.get_default_dtype()
        torch.set_default_dtype(getattr(torch, request.param))
        yield
        torch.set_default_dtype(before)


def plain(value):
    """The same in values that compare exactly."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(row) for name, row in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def models():
    return {
        "lattice": zoo.ising_lattice(side=3, sigma=0.4, seed=0),
        "ladder": zoo.ising_ladder(6, sigma=0.4, seed=0),
        "torus": zoo.ising_torus(3, sigma=0.4, seed=0),
        "glass": zoo.spin_glass_grid(3, seed=0),
        "potts": zoo.potts_lattice(2, states=3, sigma=0.4, seed=0),
        "networks": zoo.factor_lattice(3, sigma=0.4, seed=0),
        "network ladder": zoo.factor_ladder(6, sigma=0.4, seed=0),
        "random": zoo.random_factor_graph(6, 5, seed=0),
        "bayesian": zoo.random_bayesian_network(6, seed=0),
        "sprinkler": zoo.sprinkler(),
    }


def ask(model, folder):
    """Everything that needs no training."""
    first = {model.variables[0].name: 0}
    path = folder / "model.uai"
    dai.write(model, path)
    engine = dai.exact(model, first)
    states = engine.sample(5, 0)
    rows = dai.query_table(model, [first, {}], samples=2)
    return plain(
        {
            "hash": model.content_hash(),
            "read": dai.read(path).content_hash(),
            "scores": [model.log_score(states), model.log_ratios(states)],
            "exact": [engine.log_partition(), engine.marginals(), engine.map().log_score],
            "log_prob": engine.log_prob(states),
            "plan": [dai.plan(model, first).method, dai.check(model).num_entries],
            "query": [dai.query(model, first).log_partition, dai.query(model).marginals],
            "bp": dai.query(model, first, method="bp").log_partition,
            "rows": [rows.log_partition, rows.probabilities, rows.samples],
        }
    )


def train(model, folder, **settings):
    """Everything that a sampler does."""
    first = {model.variables[0].name: 0}
    sampler = dai.fit(
        model, steps=4, seed=1, batch_size=16, evaluate_every=2, evaluation_samples=20, **settings
    )
    path = folder / "sampler.dai"
    sampler.save(path)
    loaded = dai.load(path)
    found = {
        "history": [row["loss"] for row in sampler.history],
        "diagnostics": loaded.diagnostics,
        "rows": dai.query_table(loaded, [first], num_samples=100, samples=2).samples,
    }
    if not isinstance(sampler.evidence, tuple):
        drawn = sampler.sample(6, 3)
        found |= {
            "drawn": [drawn, loaded.sample(6, 3), sampler.sample(4, 3, evidence=first)],
            "log_prob": sampler.log_prob(drawn),
            "residuals": list(sampler.residuals(20, 3).values()),
        }
    return plain(found)


def by_default(folder, name, compute):
    """What comes out where nothing was set, computed once."""
    path = folder / f"{name}.json"
    if not path.exists():
        device, kind = torch.get_default_device(), torch.get_default_dtype()
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
        try:
            path.write_text(json.dumps(compute()))
        finally:
            torch.set_default_device(None if device.type == "cpu" else device)
            torch.set_default_dtype(kind)
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("defaults")


def same(folder, name, compute):
    expected = by_default(folder, name.replace(" ", "_"), compute)
    assert json.loads(json.dumps(compute())) == expected


FEW = ("lattice", "potts", "networks", "sprinkler")


@pytest.mark.usefixtures("default")
@pytest.mark.parametrize("names", [FEW, pytest.param((), marks=pytest.mark.slow)])
def test_models_and_answers_stay_the_same(folder, names):
    for name in names or models():
        same(folder, name, lambda name=name: ask(models()[name], folder))


@pytest.mark.usefixtures("default")
@pytest.mark.parametrize("name", ["lattice", pytest.param("sprinkler", marks=pytest.mark.slow)])
def test_samplers_stay_the_same(folder, name):
    settings = {"smoothing": 1e-3} if name == "sprinkler" else {}
    same(folder, f"{name} trained", lambda: train(models()[name], folder, **settings))


@pytest.mark.slow
@pytest.mark.usefixtures("default")
def test_a_question_that_trains_stays_the_same(folder):
    def asked():
        model = zoo.ising_lattice(side=3, sigma=0.2, seed=0)
        answer = dai.query(model, method="sampler", num_samples=500, seed=0)
        return plain([answer.log_partition, answer.marginals, answer.status])

    same(folder, "asked", asked)


OTHERS = {
    "many": {"orders": "many"},
    "any": {"evidence": "any"},
    "given": {"evidence": "first"},
    "table": {"family": "table"},
    "mae": {"family": "mae"},
    "bp": {"initial": "bp"},
    "polished": {"polish_steps": 3},
    "sub-dags": {"objective": "sub-dags", "orders": "many"},
} | {
    name: {"objective": name}
    for name in ("sampled", "stochastic", "log-variance", "tb", "db", "subtb", "fl-db", "fl-subtb")
}


@pytest.mark.slow
@pytest.mark.usefixtures("default")
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", ["networks", "potts"])
def test_all_ways_to_train_stay_the_same(folder, name, kind):
    settings = dict(OTHERS[kind])
    if settings.get("evidence") == "first":
        settings["evidence"] = [models()[name].variables[0].name]
    if kind == "bp" and name == "networks":
        settings = {}  # messages need factors over two variables
    same(folder, f"{name} {kind}", lambda: train(models()[name], folder, **settings))
