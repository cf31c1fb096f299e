"""Every public call with every kind of wrong value: it works, or one line says what is wrong.

The calls are found by looking (see ``public_face``), so a new one is tried as soon as it is there.
"""

import inspect
import math
import warnings
from itertools import product

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from jaxtyping import config

import deltaai as dai
from public_face import (
    ALWAYS,
    BAD,
    GOOD,
    MADE_BY_US,
    MODEL,
    SAMPLER,
    calls,
    good_arguments,
    parameters,
    spent,
)

CALLS = calls()
# A module of torch is a function of the user's own; what it does with what it is told is its own.
USERS_OWN = {"progress", "watch", "measure"}
_SHARE = 6  # of the values that are tried every time, a different share for each parameter


@pytest.fixture(autouse=True)
def _as_a_user_runs_it(tmp_path, monkeypatch):
    """Switch the tests' own type checks off, in a folder that has what the good calls read."""
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    dai.write(MODEL, "model.uai")
    SAMPLER.save("sampler.dai")
    (tmp_path / "case.evid").write_text("1 0 1\n")
    (tmp_path / "cases.csv").write_text("a\n1\n")
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    config.update("jaxtyping_disable", before)
    plt.close("all")


def attempt(name, parameter, label):
    """Call with one wrong value; return what is wrong with how that ended, or nothing."""
    call = CALLS[name]
    arguments = good_arguments(name, call) | {parameter: BAD[label]()}
    if name in ("fit", "learn", "learn_model") and parameter in ("resume", "restart"):
        arguments["checkpoint"] = "run.checkpoint"
    try:
        spent(call(**arguments))
    except dai.DeltaAIError as error:
        text = str(error)
        if not text.isprintable() or len(text) > 1000:
            return f"{name}({parameter}={label}): not one line: {text[:200]!r}"
    except Exception as error:
        if label == "module" and parameter in USERS_OWN:
            return None
        return f"{name}({parameter}={label}): {type(error).__name__} {str(error)[:200]}"
    return None


def failures(name, share):
    tried = list(product(parameters(name, CALLS[name]), BAD))
    chosen = tried[::share] if len(tried) > len(BAD) else tried[:: max(share // 2, 1)]
    return [found for place in chosen if (found := attempt(name, *place)) is not None]


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_call_works_with_good_values(name):
    try:
        arguments = good_arguments(name, CALLS[name])
    except KeyError as missing:
        pytest.fail(f"public_face.GOOD has no value for the parameter {missing} of {name}")
    spent(CALLS[name](**arguments))


@pytest.mark.parametrize("name", sorted(name for name in CALLS if parameters(name, CALLS[name])))
def test_wrong_values_work_or_are_refused_in_one_line(name):
    assert failures(name, _SHARE) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in CALLS if parameters(name, CALLS[name])))
def test_all_wrong_values_work_or_are_refused_in_one_line(name):
    assert failures(name, 1) == []


def test_everything_public_is_among_the_calls():
    shown = {name for name in dir(dai) if callable(getattr(dai, name))}
    errors = {n for n in shown if n.endswith("Error")}
    assert shown - errors - MADE_BY_US <= set(CALLS)
    assert {f"zoo.{name}" for name in dai.zoo.__all__} - set(CALLS) <= {
        "zoo.LatentBit",
        "zoo.Pyramid",
    }
    for method in ("sample", "log_prob", "save", "posterior", "trust"):
        assert f"Sampler.{method}" in CALLS
    assert len(CALLS) > 70
    assert set(ALWAYS) <= set(CALLS)
    assert GOOD


# -- each of these was once accepted, or ended in an error of Python or torch ----------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dai.read(3), "path is 3; it must be the path of a file"),
        (lambda: dai.FactorGraph(None), "variables is None: give a list of Variables"),
        (lambda: SAMPLER.sample(2, dag=3), "dag is 3; it must be a Dag: take one of random_order"),
        (lambda: dai.fit(MODEL, orders="Many"), "orders is 'Many'; did you mean 'many'?"),
        (lambda: dai.fit(MODEL, foo=1), "there is no setting 'foo'"),
        (lambda: dai.fit(MODEL, hidden=0), "hidden is 0; it must be a whole number, at least 1"),
        (lambda: dai.fit(MODEL, resume=True), "none is named: give checkpoint"),
        (lambda: dai.fit(MODEL, restart=True), "none is named: give checkpoint"),
        (lambda: dai.fit(MODEL, most_observed=1), "leave it out, or choose evidence='any'"),
        (
            lambda: dai.fit(MODEL, most_observed=1, evidence=["a"]),
            "leave it out, or choose evidence='any'",
        ),
        (lambda: dai.fit(MODEL, steps=0, polish_steps=5), "objective='log-variance'"),
        (
            lambda: dai.query(MODEL, method="sampler", num_samples=0),
            "num_samples is 0; it must be a whole number, at least 1",
        ),
        (lambda: dai.query(MODEL, watch=3), "watch is 3; it must be a function, or None"),
        (lambda: dai.query(MODEL, progress="yes"), "progress is 'yes'; it must be True or False"),
        (lambda: dai.write(None, "a.uai"), "None is no model: give a FactorGraph"),
        (lambda: MODEL.to(dtype="float32"), "dtype is 'float32'; it must be a dtype"),
        (lambda: MODEL.to("nowhere"), "device is 'nowhere'"),
        (lambda: dai.query(MODEL).marginals.estimate("aa"), "there is no marginal of 'aa'"),
        (lambda: MODEL.plot(3), "ax is 3; it must be a Axes: take that of pyplot.subplots"),
        (lambda: dai.zoo.ising_lattice(2**70, 0.1, 0), "side must be an integer of at most 10000"),
        (lambda: dai.zoo.potts_lattice(30, 10**5, 0.1, 0), "ask for fewer states"),
        (
            lambda: SAMPLER.sample(2, dag=SAMPLER.random_order(0), evidence={"a": 1}),
            "dag is for samples without evidence",
        ),
        (lambda: SAMPLER.answer(joints=[("a", "a")]), "needs names, each once"),
        (lambda: SAMPLER.answer(upper=math.nan), "upper is nan; it must be a number"),
    ],
)
def test_what_was_accepted_or_a_bare_error(call, message):
    with pytest.raises(dai.DeltaAIError) as caught:
        call()
    assert message in str(caught.value)


def test_samples_of_another_model_are_not_judged():
    other = dai.fit(dai.zoo.ising_ladder(3, 0.2, 0), steps=1)
    with pytest.raises(dai.StateError, match="of another model"):
        SAMPLER.trust(other.posterior({}, 20, 0), check_samples=0)


def test_no_updates_leave_q_as_it_was_initialised():
    first, second = (dai.fit(MODEL, steps=0, seed=4, **more) for more in ({}, {"polish_steps": 0}))
    assert [p.tolist() for p in first.proposal.conditionals.parameters()] == [
        p.tolist() for p in second.proposal.conditionals.parameters()
    ]
    assert first.history == []


def test_signatures_say_what_python_hears():
    for name, call in CALLS.items():
        assert inspect.getdoc(call), name
