"""What Python users pass that is not quite meant: it works, or one line says what is wrong.

Numbers of numpy, seeds for generators, amounts of memory as texts, paths for models; and names that
are no names, counts that are no counts, limits that limit nothing.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.errors import ConfigError
from deltaai.io import write
from deltaai.models import zoo

MODEL = zoo.ising_lattice(side=3, sigma=0.3, seed=0)


pytestmark = pytest.mark.usefixtures("as_a_user_runs_it")


@pytest.fixture(scope="module")
def sampler():
    return dai.fit(MODEL, steps=20, seed=0)


# -- seeds -------------------------------------------------------------------------------------


def test_seeds_differ_in_every_bit():
    small, large = (zoo.ising_lattice(side=3, sigma=1.0, seed=seed) for seed in (0, 2**32))
    assert small.content_hash() != large.content_hash()
    engine = dai.exact(MODEL)
    drawn = [engine.sample(50, seed).tolist() for seed in (0, 2**32, 2**33, 2**62 + 1)]
    assert all(one != other for i, one in enumerate(drawn) for other in drawn[:i])
    fitted = [dai.fit(MODEL, steps=1, seed=seed) for seed in (5, 2**32 + 5)]
    weights = [[p.tolist() for p in q.proposal.conditionals.parameters()] for q in fitted]
    assert weights[0] != weights[1]


def test_small_seeds_are_torch_s_own(sampler):
    generator = torch.Generator().manual_seed(7)
    assert sampler.sample(20, 7).tolist() == sampler.sample(20, generator).tolist()


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3)])
def test_seeds_of_numpy_are_seeds(sampler, seed):
    assert zoo.potts_lattice(2, states=3, sigma=1.0, seed=seed).content_hash()
    found = [dai.query(sampler, seed=s, num_samples=500).log_partition for s in (3, seed)]
    assert found[0] == found[1]
    assert dai.fit(MODEL, steps=1, seed=seed).config.seed == 3
    assert len(dai.query_table(sampler, [{}], seed=seed, num_samples=500)) == 1


def test_methods_that_take_a_generator_take_a_seed(sampler):
    evidence = {"x_0_0": 1}
    samples = sampler.posterior(evidence, 500, 3)
    calls = [
        lambda seed: sampler.sample(5, seed),
        lambda seed: sampler.sample(5, seed, evidence=evidence),
        lambda seed: sampler.sample_with_log_prob(5, seed)[1],
        lambda seed: torch.tensor(float(sampler.log_partition(500, seed))),
        lambda seed: torch.tensor(sampler.marginals(evidence, 500, seed)["x_1_1"]),
        lambda seed: sampler.posterior(evidence, 50, seed).log_weights,
        lambda seed: next(iter(sampler.posteriors([evidence], 50, seed))).log_weights,
        lambda seed: torch.tensor(list(sampler.residuals(20, seed).values())),
        lambda seed: samples.sample(9, seed),
        lambda seed: samples.sample_apart(9, seed),
        lambda seed: samples.rejuvenated(2, seed).states,
        lambda seed: samples.refined(seed).states,
        lambda seed: dai.exact(MODEL).sample(5, seed),
    ]
    for call in calls:
        expected = call(torch.Generator().manual_seed(11))
        assert torch.equal(call(11), expected)
        assert torch.equal(call(np.int64(11)), expected)
    assert sampler.trust(samples, generator=3).status
    for wrong in (-1, 2**63, 0.5, True, "3", np.random.default_rng(0)):
        with pytest.raises(ConfigError, match=r"2\^63 - 1"):
            sampler.sample(2, wrong)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, "0", None])
def test_what_is_no_seed_is_refused(sampler, seed):
    for call in (
        lambda: dai.fit(MODEL, steps=1, seed=seed),
        lambda: dai.query(sampler, seed=seed),
        lambda: dai.query(MODEL, seed=seed),
        lambda: dai.query_table(MODEL, [{}], seed=seed),
        lambda: zoo.sprinkler() and zoo.ising_torus(3, sigma=1.0, seed=seed),
    ):
        with pytest.raises(ConfigError, match=r"seed is .*: it must be a whole number from 0 to 2"):
            call()


# -- names and evidence ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ([3], "3 is no name of a variable: names are strings, not int"),
        ("lung", "of is 'lung': give a list of names, such as ['lung']"),
        (3, "of is 3: give a list of names"),
        (["x_0_0", None], "None is no name of a variable"),
        ([["x_0_0"]], "['x_0_0'] is no name of a variable"),
        (["x_0_9"], "no variable 'x_0_9' in the model; did you mean"),
    ],
)
def test_names_that_are_none(sampler, of, message):
    for source in (MODEL, sampler):
        with pytest.raises(dai.EvidenceError, match=re.escape(message)):
            dai.query(source, {}, of)
        with pytest.raises(dai.EvidenceError, match=re.escape(message)):
            dai.query_table(source, [{}], of)


def test_a_number_for_a_name_says_how_to_write_it():
    model = dai.FactorGraph([dai.Variable("2"), dai.Variable("3")])
    with pytest.raises(dai.EvidenceError, match=r"2 is no name .* not int: write '2'"):
        dai.query(model, {2: 0})


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({2: 0}, "2 is no name of a variable"),
        ({None: 0}, "None is no name of a variable"),
        ({"x_0_0": None}, "'x_0_0' has no state None"),
        ({"x_0_0": [1]}, r"'x_0_0' has no state \[1\]"),
        ({"x_0_0": math.nan}, "'x_0_0' has no state nan"),
        ({"x_0_0": math.inf}, "'x_0_0' has no state inf"),
        ({"x_0_0": True}, "'x_0_0' has no state True"),
    ],
)
def test_evidence_that_is_none(sampler, evidence, message):
    for call in (
        lambda: dai.query(MODEL, evidence),
        lambda: dai.query(sampler, evidence),
        lambda: dai.plan(MODEL, evidence),
        lambda: dai.exact(MODEL, evidence),
        lambda: sampler.sample(2, evidence=evidence),
        lambda: MODEL.condition(evidence),
    ):
        with pytest.raises(dai.EvidenceError, match=message):
            call()
    if None not in evidence.values() and not any(value != value for value in evidence.values()):
        with pytest.raises(dai.EvidenceError, match=message):  # in a row these mean unknown
            dai.query_table(MODEL, [evidence])


@pytest.mark.parametrize("evidence", [["x_0_0"], "x_0_0=1", 3, ("x_0_0", 1)])
def test_evidence_that_is_no_mapping(evidence):
    for call in (dai.exact, dai.plan):
        with pytest.raises(dai.EvidenceError, match=r"evidence is a .*: give names and states"):
            call(MODEL, evidence)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ("yes", "'a' are 'yes': this is one text; give a list of labels"),
        (b"yes", "this is one text"),
        ({"yes", "no"}, "a set has no order; give a list of labels"),
        (10**12, "'a' has 1000000000000 states: at most"),
    ],
)
def test_a_text_or_a_set_is_no_list_of_states(states, message):
    with pytest.raises(dai.ModelError, match=message):
        dai.Variable("a", states)


# -- amounts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["4GB", "512 MiB", 10**9, np.int64(10**9), 1e9])
def test_memory_in_any_form(sampler, limit):
    assert dai.query(MODEL, memory_limit=limit).status == "exact"
    assert dai.query_table(MODEL, [{}], memory_limit=limit).status == ("exact",)
    assert dai.query(sampler, num_samples=500, memory_limit=limit).ess
    assert dai.plan(MODEL, memory_limit=limit).method == "exact"
    assert dai.check(MODEL, memory_limit=limit).plan.method == "exact"
    assert math.isfinite(dai.exact(MODEL, memory_limit=limit).log_partition())


@pytest.mark.parametrize("limit", ["lots", "-1", "0", "", -1, 0, math.nan, math.inf, True, [1]])
def test_memory_that_is_none(limit):
    for call in (
        lambda: dai.query(MODEL, memory_limit=limit),
        lambda: dai.query_table(MODEL, [{}], memory_limit=limit),
        lambda: dai.plan(MODEL, memory_limit=limit),
        lambda: dai.check(MODEL, memory_limit=limit),
        lambda: dai.exact(MODEL, memory_limit=limit),
    ):
        with pytest.raises(ConfigError, match=r"amount of memory|memory_limit is .* bytes"):
            call()


@pytest.mark.parametrize("limit", [-1, 0, math.nan, math.inf, -math.inf, True, "10", [1]])
def test_time_that_is_none(sampler, limit):
    for call in (
        lambda: dai.query(MODEL, time_limit=limit),
        lambda: dai.query(sampler, time_limit=limit),
        lambda: dai.query_table(MODEL, [{}], time_limit=limit),
        lambda: dai.plan(MODEL, time_limit=limit),
        lambda: dai.fit(MODEL, time_limit=limit),
    ):
        with pytest.raises(ConfigError, match=r"time_limit is .* a finite number above 0"):
            call()


def test_time_in_any_form():
    for limit in (60, 60.0, np.float32(60), np.int64(60)):
        assert dai.query(MODEL, time_limit=limit).status == "exact"
        assert dai.fit(MODEL, steps=1, time_limit=limit).config.time_limit == 60.0


@pytest.mark.parametrize(
    "number", [0, -1, 2.5, 100.0, True, 10**12, 99_999_999_999, "10", math.nan]
)
def test_numbers_of_samples_that_are_none(sampler, number):
    if number != 0:
        for call in (
            lambda: dai.query(sampler, check_samples=number),
            lambda: dai.query_table(sampler, [{}], check_samples=number),
        ):
            with pytest.raises(
                ConfigError, match=r"check_samples is .* a whole number, at least 0"
            ):
                call()
    for call in (
        lambda: dai.query(MODEL, num_samples=number),
        lambda: dai.query(sampler, num_samples=number),
        lambda: dai.query_table(sampler, [{}], num_samples=number),
        lambda: sampler.answer({}, number),
        lambda: sampler.posterior({}, number),
        lambda: sampler.log_partition(number),
        lambda: sampler.residuals(number),
    ):
        with pytest.raises(ConfigError, match=r"num_samples is .* a whole number, at least 1"):
            call()
    if number != 0 or number is True:
        for draw in (sampler.sample, sampler.sample_with_log_prob, dai.exact(MODEL).sample):
            with pytest.raises(ConfigError, match=r"num_samples is .* a whole number, at least 0"):
                draw(number)
        with pytest.raises(ConfigError, match="num_samples is"):
            sampler.sample(number, evidence={"x_0_0": 1})
        with pytest.raises(ConfigError, match=r"samples is .* a whole number, at least 0"):
            dai.query_table(MODEL, [{}], samples=number)


def test_no_samples_are_none(sampler):
    assert sampler.sample(0).shape == (0, 9)
    assert sampler.sample(0, evidence={"x_0_0": 1}).shape == (0, 9)
    assert dai.exact(MODEL).sample(np.int64(0)).shape == (0, 9)


def test_settings_of_numpy():
    settings = {"steps": np.int64(3), "batch_size": np.int32(16), "learning_rate": np.float32(0.01)}
    used = dai.fit(MODEL, **settings, hidden=np.int64(4), threads=np.int64(1)).config
    assert used.to_dict()["steps"] == 3
    assert type(used.steps) is int
    assert type(used.learning_rate) is float


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 2.5}, "steps is 2.5; it must be a whole number"),
        ({"steps": True}, "steps is True; it must be a whole number"),
        ({"steps": "10"}, "steps is '10'; it must be a whole number"),
        ({"stepps": 10}, "there is no setting 'stepps'; did you mean 'steps'"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"hidden": 0}, "hidden is 0; it must be a whole number, at least 1"),
        ({"hidden": 2.0}, "hidden is 2.0"),
        ({"threads": 0}, "threads is 0"),
        ({"evidence": "any", "most_observed": -1}, "most_observed is -1"),
        ({"orders": "two"}, "orders is 'two'"),
        ({"family": "locl"}, "locl"),
        ({"family": 3}, "3"),
        ({"evidence": 3}, "evidence is 3: give 'any', or a list of names"),
        ({"evidence": [3]}, "3 is no name of a variable"),
        ({"smoothing": "x"}, "smoothing"),
        ({"learning_rate": math.inf}, "learning_rate is inf"),
    ],
)
def test_settings_that_are_none(settings, message):
    with pytest.raises(dai.DeltaAIError, match=message):
        dai.fit(MODEL, **{"steps": 1, **settings})


@pytest.mark.parametrize("method", [None, 3, "exakt", ["exact"]])
def test_methods_that_are_none(method):
    for call in (
        lambda: dai.query(MODEL, method=method),
        lambda: dai.query_table(MODEL, [{}], method=method),
    ):
        with pytest.raises(ConfigError, match=r"method is .* [Oo]ne of auto"):
            call()


# -- paths -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, Path])
def test_paths_simply_work(tmp_path, sampler, kind):
    model, trained = tmp_path / "lattice.uai", tmp_path / "lattice.dai"
    write(MODEL, model)
    sampler.save(trained)
    path = kind(model)
    assert dai.query(path).log_partition == pytest.approx(dai.query(MODEL).log_partition)
    assert dai.query_table(path, [{"x0": 1}]).status == ("exact",)
    assert dai.plan(path).method == "exact"
    assert dai.check(path).num_variables == 9
    assert math.isfinite(dai.exact(path).log_partition())
    assert dai.fit(path, steps=1).model.num_variables == 9
    found = dai.query(kind(trained), {"x_0_0": 1}, num_samples=500)
    assert found.ess
    assert len(dai.query_table(kind(trained), [{}], num_samples=500)) == 1


def test_paths_and_things_that_are_no_model(tmp_path, sampler):
    for call in (dai.query, dai.plan, dai.check, dai.fit, dai.exact):
        with pytest.raises(dai.FormatError, match="there is no such file"):
            call(str(tmp_path / "none.bif"))
        for thing in (3, None, [MODEL], {"a": 1}):
            with pytest.raises(dai.ModelError, match="is no model: give a FactorGraph"):
                call(thing)
    saved = tmp_path / "trained.dai"
    sampler.save(saved)
    for call in (dai.plan, dai.check, dai.fit, dai.exact):
        with pytest.raises(dai.ModelError, match="a Sampler is no model: give its model"):
            call(sampler)
        with pytest.raises(dai.FormatError, match="a sampler is read with load"):
            call(saved)


# -- torch around us ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_where_no_gradients_are_recorded(mode):
    expected = dai.fit(MODEL, steps=5, seed=0).sample(20, 0)
    with mode():
        inside = zoo.ising_lattice(side=3, sigma=0.3, seed=0)
        dai.plan(inside)  # fills what a model keeps
        single = inside.to(dtype=torch.float32)
        assert dai.fit(single, steps=2, seed=0).sample(2).shape == (2, 9)
        for model in (MODEL, inside):
            assert torch.equal(dai.fit(model, steps=5, seed=0).sample(20, 0), expected)
        trained = dai.fit(inside, steps=5, seed=0)
        assert dai.query(inside, method="sampler", num_samples=500, time_limit=20).ess
    assert dai.fit(single, steps=2, seed=0).sample(2).shape == (2, 9)
    assert torch.equal(dai.fit(inside, steps=5, seed=0).sample(20, 0), expected)
    assert torch.equal(trained.sample(20, 0), expected)
    assert torch.is_grad_enabled()


# -- notes -------------------------------------------------------------------------------------


def unnormalised():
    rain, wet = dai.Variable("rain", ["no", "yes"]), dai.Variable("wet", ["no", "yes"])
    return dai.FactorGraph(
        [rain, wet],
        [
            dai.ConditionalTable("rain", [], [0.5, 0.5]),
            dai.ConditionalTable("wet", ["rain"], [[0.9, 0.3], [0.2, 0.8]]),
        ],
    )


def test_rows_that_do_not_sum_to_one_are_noted(tmp_path):
    model = unnormalised()
    note = "'wet': rows of the conditional table do not sum to one"
    answer = dai.query(model)
    assert answer.status == "exact"
    assert [note in sentence for sentence in answer.notes] == [True]
    assert dai.query(model, {"rain": "no"}, method="bp").notes == answer.notes
    table = dai.query_table(model, [{}])
    assert table.notes == answer.notes
    assert table.status == ("exact",)
    dai.fit(model, steps=2).save(tmp_path / "wet.dai")
    assert dai.query(tmp_path / "wet.dai", num_samples=500).notes == answer.notes
    assert dai.check(model).warnings[0] == answer.notes[0]
    assert dai.query(zoo.sprinkler()).notes == ()


def test_the_command_line_notes_it_too(run, tmp_path):
    write(unnormalised(), tmp_path / "wet.bif")
    note = "note: 'wet': rows of the conditional table do not sum to one"
    code, out, err = run("query", tmp_path / "wet.bif", "--json")
    assert code == 0
    assert note in err
    assert err.count(note[6:]) == 1
    assert f'"notes": ["{note[6:]}' in re.sub(r"\s+", " ", out).replace("[ ", "[")
    (tmp_path / "rows.csv").write_text("rain\nno\n")
    code, out, err = run("query", tmp_path / "wet.bif", "--evidence-file", tmp_path / "rows.csv")
    assert code == 0
    assert note in err
    assert "exact" in out
