"""Everything that a user can call, found by looking; and values that hardly anybody means.

Calls are found from ``dir(deltaai)``, the zoo, and the public methods of every object that these
return, so that a new one is tried at once: it needs a good value for each parameter it requires,
looked up by the parameter's name in ``GOOD``, and a test says so where there is none.
"""

import inspect
import math
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch
from torch import nn

import deltaai as dai
from deltaai.budget import Budget
from deltaai.graphs import Dag
from deltaai.learning import GradientSettings, LikelihoodConfig
from deltaai.training.config import TrainingConfig

MODEL = dai.FactorGraph(
    [dai.Variable("a"), dai.Variable("b", ["no", "yes"]), dai.Variable("c", 3)],
    [
        dai.TableFactor(["a", "b"], [[0.1, 0.2], [0.3, -0.4]]),
        dai.TableFactor(["b", "c"], [[0.1, 0.2, 0.0], [0.3, -0.4, 0.5]]),
        dai.SpinCoupling("a", "b", 0.2),
    ],
)
FIELD = dai.zoo.gaussian_tree(3, 0.5, 0)
SAMPLER = dai.fit(MODEL, steps=2, seed=0, evaluate_every=0, target_ess=None)
SAMPLER.diagnose(0)
STATES = torch.tensor([[0, 1, 2], [1, 0, 0]])


class Unshowable:
    """Cannot even be shown."""

    def __repr__(self):
        raise RuntimeError("nothing to see")


def numbers():
    yield from (0, 1)


def square(values):
    """A factor's function."""
    return -values.square().sum(1)


# Made anew for every call, for some are used up or may be changed.
BAD = {
    "None": lambda: None,
    "0": lambda: 0,
    "3": lambda: 3,
    "-1": lambda: -1,
    "2**70": lambda: 2**70,
    "10**5000": lambda: 10**5000,
    "0.5": lambda: 0.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "1j": lambda: 1j,
    "True": lambda: True,
    "text": lambda: "x",
    "empty text": lambda: "",
    "two lines": lambda: "a\nb",
    "surrogate": lambda: "\udcff",
    "null": lambda: "\0",
    "bytes": lambda: b"x",
    "[]": list,
    "[None]": lambda: [None],
    "[[]]": lambda: [[]],
    "{}": dict,
    "{1: 2}": lambda: {1: 2},
    "{'a': nan}": lambda: {"a": math.nan},
    "{'x': {}}": lambda: {"x": {}},
    "()": tuple,
    "set": lambda: {"a"},
    "object": object,
    "unshowable": Unshowable,
    "generator": numbers,
    "type": lambda: int,
    "path": lambda: Path("nowhere"),
    "numpy nan": lambda: np.float64(math.nan),
    "numpy -1": lambda: np.int64(-1),
    "numpy bool": lambda: np.bool_(True),
    "numpy text": lambda: np.array("x"),
    "numpy scalar array": lambda: np.array(3),
    "numpy floats": lambda: np.array([[0.5, 1.5, 2.5]]),
    "numpy states": lambda: np.array([[0, 1, 2]]),
    "numpy nothing": lambda: np.zeros((0, 3)),
    "numpy objects": lambda: np.array([None, {}], dtype=object),
    "tensor scalar": lambda: torch.tensor(3.5),
    "tensor floats": lambda: torch.full((2, 2), math.nan),
    "tensor truths": lambda: torch.ones(1, 3, dtype=torch.bool),
    "tensor states": lambda: torch.tensor([[9, -9, 9]]),
    "tensor complex": lambda: torch.zeros(1, 3, dtype=torch.complex64),
    "tensor nothing": lambda: torch.empty(0, 3, dtype=torch.long),
    "tensor cube": lambda: torch.zeros(1, 1, 3, dtype=torch.long),
    "tensor sparse": lambda: torch.eye(3).to_sparse(),
    "module": lambda: nn.Linear(7, 7),
    "dag": lambda: Dag(dai.zoo.ising_ladder(2, 0.1, 0).markov_graph(), (0, 1)),
    "budget": lambda: Budget.of(2**30, None),
    "variable": lambda: dai.Variable("z"),
    "model": lambda: dai.zoo.ising_ladder(2, 0.1, 0),
    "sampler": lambda: SAMPLER,
}

# Good values by the name of a parameter; a few calls mean something else by a name.
GOOD = {
    "name": lambda: "a",
    "variables": lambda: MODEL.variables,
    "scope": lambda: ["a", "b"],
    "log_table": lambda: [[0.0, 1.0], [1.0, 0.0]],
    "values": lambda: [[0.5, 1.0], [1.0, 0.5]],
    "child": lambda: "a",
    "parents": lambda: ["b"],
    "probabilities": lambda: [[0.5, 0.5], [0.1, 0.9]],
    "first": lambda: "a",
    "second": lambda: "b",
    "variable": lambda: "a",
    "strength": lambda: 0.5,
    "module": lambda: nn.Linear(2, 1),
    "model": lambda: MODEL,
    "source": lambda: MODEL,
    "path": lambda: "model.uai",
    "state": lambda: 1,
    "x": lambda: STATES,
    "evidence": lambda: {"a": 1},
    "observed": lambda: {0: 1},
    "groups": lambda: MODEL.groups,
    "num_samples": lambda: 20,
    "answer": lambda: SAMPLER.posterior({}, 20, 0),
    "rows": lambda: [{"a": 1}],
    "seed": lambda: 0,
    "side": lambda: 3,
    "states": lambda: 2,
    "sigma": lambda: 0.3,
    "num_variables": lambda: 4,
    "num_factors": lambda: 3,
    "method": lambda: "exact",
    "names": lambda: ["a"],
    "row": lambda: 0,
    "num_sweeps": lambda: 1,
    "precision": lambda: [[2.0, 0.5], [0.5, 2.0]],
    "mean": lambda: [0.0, 1.0],
    "covariance": lambda: [[2.0, 0.5], [0.5, 2.0]],
    "components": lambda: [dai.GaussianFactor("x", 0.0, 1.0), dai.GaussianFactor("x", 1.0, 2.0)],
    "function": lambda: square,
    "value": lambda: 1,
    "coupling": lambda: 0.5,
    "probability": lambda: 0.25,
    "nodes": lambda: [("hip", 2), ("knee", 1)],
    "edges": lambda: [(0, 1)],
    "cells": lambda: SAMPLER.posterior({}, 20, 0).cells,
    "target": lambda: "a",
    "given": lambda: ["b"],
    "event": lambda: "a=#0 or b=yes",
    "do": lambda: {"rain": "yes"},
    "likelihood": lambda: {"a": [0.5, 1.0]},
    "data": lambda: [{"a": "no", "b": 1}, {"a": "yes", "b": None}, {"a": "no", "b": 0}] * 8,
}
GOOD_HERE = {
    ("FactorGraph.log_ratio", "variable"): lambda: torch.tensor([0, 1]),
    ("FactorGraph.log_ratio", "value"): lambda: torch.tensor([1, 1]),
    ("GaussianInference", "model"): lambda: FIELD,
    ("GaussianInference.covariance", "names"): lambda: ["x0", "x2"],
    ("GaussianInference.log_prob", "x"): lambda: torch.zeros(2, 3, dtype=torch.float64),
    ("learn_model", "model"): lambda: dai.learnable(MODEL),
    ("learn_model", "rows"): lambda: STATES.repeat(4, 1),
    ("query_table", "evidence"): lambda: [{"a": 1}],
    ("fit", "evidence"): lambda: None,
    ("conflict", "evidence"): lambda: {"a": 1, "b": "no"},
    ("conditional", "evidence"): lambda: None,
    ("informative", "evidence"): lambda: None,
    ("intervened", "model"): dai.zoo.sprinkler,
    ("read_evidence", "path"): lambda: "case.evid",
    ("read_evidence_table", "path"): lambda: "cases.csv",
    ("load", "path"): lambda: "sampler.dai",
    ("write", "path"): lambda: "written.uai",
    ("RealMarginal.normal", "mean"): lambda: 0.5,
    ("RealMarginal.normal", "variance"): lambda: 0.5,
    ("RealMarginal.weighted", "values"): lambda: [0.5, 1.0],
    ("WeightedMarginal.normal", "mean"): lambda: 0.5,
    ("WeightedMarginal.normal", "variance"): lambda: 0.5,
    ("WeightedMarginal.weighted", "values"): lambda: [0.5, 1.0],
    ("Sampler.save", "path"): lambda: "saved.dai",
    ("fit", "states"): lambda: None,
    ("from_pgmpy", "model"): lambda: dai.to_pgmpy(MODEL),
    ("from_pyagrum", "model"): lambda: dai.to_pyagrum(MODEL),
    ("WeightedSamples.joined", "more"): lambda: SAMPLER.posterior({"a": 1}, 50, 0),
}
# So that a call which is accepted ends soon.
ALWAYS = {
    "fit": {
        "steps": 1,
        "time_limit": 0.05,
        "batch_size": 8,
        "progress": False,
        "evaluate_every": 0,
        "target_ess": None,
    },
    "learn_model": {"steps": 1, "time_limit": 0.05, "batch_size": 4, "progress": False},
    "query": {"num_samples": 20, "check_samples": 0},
    "query_table": {"num_samples": 20, "check_samples": 0},
    "conditional": {"num_samples": 20, "check_samples": 0},
    "informative": {"num_samples": 20, "check_samples": 0},
    "conflict": {"num_samples": 20, "check_samples": 0},
    "probability": {"num_samples": 20, "check_samples": 0},
    "plan": {"time_limit": 5.0},
    "Sampler.answer": {"num_samples": 20, "check_samples": 0},
    "Sampler.log_partition": {"num_samples": 20},
    "Sampler.marginals": {"num_samples": 20},
    "Sampler.judged": {"check_samples": 0},
    "Sampler.trust": {"check_samples": 0},
}
# Values that the library makes and users read: they are not called into being, nor need a check.
MADE_BY_US = {"Answer", "Estimate", "Marginals", "Plan", "Sampler", "TableAnswer", "StateIndex"}
MADE_BY_US |= {"LatentBit", "Pyramid", "RealMarginal"}
SETTINGS = {
    "fit": tuple(field.name for field in fields(TrainingConfig)),
    "learn_model": tuple(
        field.name for kind in (LikelihoodConfig, GradientSettings) for field in fields(kind)
    ),
}


def objects():
    """What public calls return, by the name of its type."""
    drawn = SAMPLER.posterior({"a": 1}, 50, 0)
    answer = dai.query(MODEL, {"a": 1})
    found = {
        "Variable": MODEL.variables[0],
        "TableFactor": MODEL.factors[0],
        "ConditionalTable": dai.ConditionalTable("a", [], [0.5, 0.5]),
        "FactorGraph": MODEL,
        "Plan": dai.plan(MODEL),
        "ExactInference": dai.exact(MODEL),
        "GaussianInference": dai.exact(FIELD),
        "RealMarginal": dai.RealMarginal.normal(0.5, 2.0),
        "WeightedMarginal": dai.RealMarginal.weighted([0.5, 1.0, 2.0], [1.0, 0.0, 2.0]),
        "Sampler": SAMPLER,
        "Answer": answer,
        "Marginals": answer.marginals,
        "Estimate": answer.partition,
        "TableAnswer": dai.query_table(MODEL, [{"a": 1}], samples=2),
        "WeightedSamples": drawn,
        "Verdict": SAMPLER.trust(drawn, 0, check_samples=20),
        "Drawn": SAMPLER.judged(drawn, 0, check_samples=20),
        "ModelReport": dai.check(MODEL),
        "Budget": Budget.of(2**30, 60),
    }
    return found


def calls():
    """Every public call by name, bound to an object where it is a method."""
    found = {}
    for home in (dai, dai.zoo):
        names = dir(dai) if home is dai else dai.zoo.__all__
        for name in names:
            call = getattr(home, name)
            is_error = isinstance(call, type) and issubclass(call, BaseException)
            if callable(call) and not is_error and name not in MADE_BY_US:
                found[name if home is dai else f"zoo.{name}"] = call
    for kind, thing in objects().items():
        if kind == "Budget":  # for those who call the library's inside
            continue
        for name in dir(type(thing)):
            if name.startswith("_") or isinstance(getattr(type(thing), name), property):
                continue
            call = getattr(thing, name)
            module = getattr(call, "__module__", None) or ""
            if f"{kind}.{name}" == "WeightedMarginal.density":  # which samples do not have
                continue
            if callable(call) and module.startswith("deltaai"):
                found[f"{kind}.{name}"] = call
    return found


def parameters(name, call):
    """Names of its parameters that take one value each; settings of training are some of them."""
    found = []
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            found += SETTINGS.get(name, ("steps",))
        else:
            found.append(parameter.name)
    return list(dict.fromkeys(found))


def good_arguments(name, call):
    """Arguments with which the call works; a missing one is a KeyError that names it."""
    found = {}
    for parameter in inspect.signature(call).parameters.values():
        here = GOOD_HERE.get((name, parameter.name))
        if here is not None:
            found[parameter.name] = here()
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            found[parameter.name] = GOOD[parameter.name]()
    return found | ALWAYS.get(name, {})


def spent(result):
    """Use up what is only computed when it is looked at, and show what can be shown."""
    if inspect.isgenerator(result):
        return list(result)
    if type(result).__module__.startswith("deltaai"):
        str(result)
    return result
