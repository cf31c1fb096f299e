"""Labels that are numbers: one meaning everywhere, and no number with two readings.

A grade has the states 1, 2 and 3, so its label "1" has the index 0 and its index 1 the label "2".
Whatever a value comes through (a mapping, a frame, a CSV file, the command line), it means the
same, and every way to an answer agrees with enumeration.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch

import deltaai as dai
from data_folder import data_folder
from deltaai.exact import ConditionedInference, Enumeration, RowInference, find_cutset
from deltaai.models.zeros.determinism import propagate_zeros

GRADE = dai.Variable("grade", ["1", "2", "3"])
TWO_READINGS = (
    "'grade' has labels that are numbers, so 1 may be its label '1' (index 0) or its index 1 "
    "(label '2'): write the text '1' for the label, or '#1' for the index"
)
NO_LABEL = "'grade' has no state '0' (its states: 1, 2, 3); write '#0' for the state of index 0"


pytestmark = pytest.mark.usefixtures("as_a_user_runs_it")


def graded(size=4, zeros=False):
    """A ring of variables with the states 1, 2, 3, of which the first is called grade."""
    source = np.random.default_rng(7)
    names = ["grade", *(f"grade{number}" for number in range(1, size))]
    factors = []
    for first in range(size):
        table = source.uniform(0.2, 3.0, (3, 3))
        if zeros and first == 1:
            table[0] = 0.0  # the state 1 of grade1 is impossible: its labels 2 and 3 are left
        factors.append(
            dai.TableFactor.from_values([names[first], names[(first + 1) % size]], table.tolist())
        )
    return dai.FactorGraph([dai.Variable(name, GRADE.states) for name in names], factors)


def same(found, expected, tolerance=1e-9):
    assert found.keys() == expected.keys()
    for name, row in expected.items():
        np.testing.assert_allclose(found[name], row, atol=tolerance)


@pytest.mark.parametrize(
    ("value", "index"),
    [
        ("1", 0),
        (" 1 ", 0),
        ("#0", 0),
        ("#1", 1),
        (dai.StateIndex(1), 1),
        (3, 2),  # no index, so there is one reading
        (3.0, 2),
        (np.int64(3), 2),
        (np.float32(3), 2),
        (torch.tensor(3), 2),
        (0, 0),  # no label
    ],
)
def test_values_with_one_reading(value, index):
    assert GRADE.index_of(value) == index


@pytest.mark.parametrize("value", [1, 1.0, np.int8(1), np.float64(1), torch.tensor(1)])
def test_a_number_with_two_readings_is_refused_with_both_spelled_out(value):
    with pytest.raises(dai.EvidenceError) as error:
        GRADE.index_of(value)
    assert str(error.value) == f"variable {TWO_READINGS}"


@pytest.mark.parametrize("value", ["0", "4", "#3", "#-1", "#", "1.0", 0.5, -1, 4, None, True])
def test_what_is_no_state_is_refused(value):
    with pytest.raises(dai.EvidenceError, match="'grade' has no state"):
        GRADE.index_of(value)


def test_where_readings_agree_or_there_is_one_numbers_stay_indices():
    assert [dai.Variable("x", 3).index_of(number) for number in (0, 1, 2)] == [0, 1, 2]
    assert [dai.Variable("x", 3).index_of(text) for text in ("0", "1", "2")] == [0, 1, 2]
    rain = dai.Variable("rain", ["no", "yes"])
    assert [rain.index_of(value) for value in (1, "1", "#1", 1.0)] == [1, 1, 1, 1]
    # Digits with more around them are no numbers, and not what Python makes of underscores.
    doses = dai.Variable("dose", ["1_1", "1_2", "20_MG"])
    assert doses.index_of("1") == 1


def test_other_kinds_of_labels():
    truth = dai.Variable("truth", ["False", "True"])
    assert [truth.index_of(value) for value in (True, np.bool_(False), "True")] == [1, 0, 1]
    share = dai.Variable("share", ["0.5", "1.0", "2"])
    assert [share.index_of(value) for value in (0.5, 1.0, 2.0, "1.0")] == [0, 1, 2, 1]
    swapped = dai.Variable("swapped", ["1.0", "0.0"])
    with pytest.raises(dai.EvidenceError, match=r"label '1.0' \(index 0\) or its index 1"):
        swapped.index_of(1.0)
    marked = dai.Variable("marked", ["#1", "#0"])
    assert [marked.index_of(value) for value in ("#1", "#0", 1)] == [0, 1, 1]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("value", ["2", "#1", dai.StateIndex(1)])
def test_exact_answers_are_those_of_enumeration(value, zeros):
    model = graded(zeros=zeros)
    expected = Enumeration(model, {"grade": "2"})
    evidence = {"grade": value}
    engine = dai.exact(model, evidence)
    same(engine.marginals(), expected.marginals())
    assert engine.log_partition() == pytest.approx(expected.log_partition())
    assert set(engine.sample(20, torch.Generator().manual_seed(0))[:, 0].tolist()) == {1}
    assert engine.map().labels["grade"] == "2"
    answer = dai.query(model, evidence)
    same(answer.marginals, expected.marginals())
    same(Enumeration(model.condition(evidence)).marginals(), without(expected, "grade"))
    assert dai.plan(model, evidence).num_observed == 1
    reduction = propagate_zeros(model, evidence)
    same(reduction.expand_marginals(Enumeration(reduction.model).marginals()), expected.marginals())
    assert model.condition(reduction.fixed).num_variables == model.num_variables - len(
        reduction.fixed
    )


def without(enumeration, name):
    return {other: row for other, row in enumeration.marginals().items() if other != name}


def test_fixing_variables_one_at_a_time_reads_no_label():
    model = graded(size=5, zeros=True)
    reduced = propagate_zeros(model).model  # grade1 has the labels 2 and 3 now
    cutset = find_cutset(reduced, memory_limit=600)
    assert cutset is not None
    assert cutset.variables
    same(
        ConditionedInference(reduced, cutset, memory_limit=600).marginals(),
        Enumeration(reduced).marginals(),
    )


def test_a_sampler_agrees_with_enumeration(tmp_path):
    model = graded()
    sampler = dai.fit(model, steps=150, seed=0)
    evidence = {"grade": "2", "grade2": "#0"}
    expected = Enumeration(model, {"grade": "#1", "grade2": "1"})
    answer = dai.query(sampler, evidence)
    same(answer.marginals, expected.marginals(), 0.03)
    assert answer.log_partition == pytest.approx(expected.log_partition(), abs=0.05)
    drawn = sampler.sample(50, torch.Generator().manual_seed(0), evidence=evidence)
    assert set(drawn[:, 0].tolist()) == {1}
    assert set(drawn[:, 2].tolist()) == {0}
    given = dai.fit(model, evidence=["grade"], steps=20, seed=0)
    given.save(tmp_path / "given.dai")  # is judged at values of its own choice
    assert given.diagnostics["status"]
    with pytest.raises(dai.EvidenceError, match=re.escape(TWO_READINGS)):
        sampler.sample(3, evidence={"grade": 1})
    with pytest.raises(dai.EvidenceError, match=re.escape(TWO_READINGS)):
        dai.query(sampler, {"grade": 1})


@pytest.mark.parametrize("method", ["exact", "sampler"])
def test_rows_agree_with_enumeration(method):
    model = graded(zeros=True)
    frame = pd.DataFrame({"grade": ["2", None, "#0"], "grade2": [None, "1", "3"]})
    rows = [{"grade": "2"}, {"grade2": "1"}, {"grade": "1", "grade2": 3}]
    settings = {} if method == "exact" else {"steps": 100}
    for table in (frame, rows):
        found = dai.query_table(model, table, method=method, samples=3, **settings)
        for row, evidence in enumerate(rows):
            expected = Enumeration(model, evidence)
            tolerance = 1e-6 if method == "exact" else 0.06
            same(found.marginals(row), expected.marginals(), tolerance)
            for name, state in model.resolve_evidence(evidence).items():
                assert set(found.samples[row, :, name].tolist()) == {state}


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"grade": [3, 1]}),
        pd.DataFrame({"grade": [np.nan, 1.0]}),
        pd.DataFrame({"grade": pd.array([None, 1], dtype="Int64")}),
        pd.DataFrame({"grade": pd.Categorical([3, 1])}),
        [{}, {"grade": 1}],
    ],
)
def test_tables_refuse_a_number_with_two_readings(table):
    with pytest.raises(dai.EvidenceError, match="row 2: .*" + re.escape(TWO_READINGS)):
        dai.query_table(graded(), table)


def test_files_of_evidence(tmp_path):
    model = graded()
    (tmp_path / "rows.csv").write_text("grade,grade2\n1,\n#1,3\n")
    rows = dai.read_evidence_table(tmp_path / "rows.csv", model)
    assert rows.tolist() == [[0, -1, -1, -1], [1, -1, 2, -1]]
    (tmp_path / "bad.csv").write_text("grade\n0\n")
    with pytest.raises(dai.EvidenceError, match=re.escape(NO_LABEL)):
        dai.read_evidence_table(tmp_path / "bad.csv", model)
    (tmp_path / "one.evid").write_text("1 0 1")  # holds indices by definition
    evidence = dai.read_evidence(tmp_path / "one.evid", model)
    assert evidence == {"grade": 1}
    same(dai.query(model, evidence).marginals, Enumeration(model, {"grade": "2"}).marginals())


@pytest.mark.parametrize("source", ["model.bif", "sampler.dai"])
def test_the_command_line(run, tmp_path, source):
    # A chain of conditional tables, which a .bif file can hold.
    labels, random = GRADE.states, np.random.default_rng(3)
    names = ["grade", "later", "last"]
    rows = random.dirichlet([2.0] * 3, size=(2, 3))
    tables = [dai.ConditionalTable("grade", [], [0.2, 0.3, 0.5])]
    tables += [dai.ConditionalTable(names[k + 1], [names[k]], rows[k].tolist()) for k in range(2)]
    model = dai.FactorGraph([dai.Variable(name, labels) for name in names], tables)
    path = tmp_path / source
    if source == "model.bif":
        dai.write(model, path)
    else:
        dai.fit(model, steps=60, seed=0).save(path)
    expected = Enumeration(model, {"grade": "2"}).marginals()
    (tmp_path / "one.evid").write_text("1 0 1")
    for words in (
        ["-e", "grade=2"],
        ["-e", "grade=#1"],
        ["--evidence-file", tmp_path / "one.evid"],
    ):
        code, out, err = run("query", path, *words, "--json")
        assert code == 0, err
        found = json.loads(out)["marginals"]
        same({name: list(row.values()) for name, row in found.items()}, expected, 0.05)
        code, out, err = run("sample", path, *words, "-n", "5", "--json")
        assert code == 0, err
        assert {row["grade"] for row in json.loads(out)} == {"2"}
    code, _, err = run("query", path, "-e", "grade=0")
    assert code == 2
    assert NO_LABEL in err.replace("\n", " ")
    (tmp_path / "rows.csv").write_text("grade\n2\n#1\n")
    code, out, err = run("query", path, "--evidence-file", tmp_path / "rows.csv", "--json")
    assert code == 0, err
    for row in json.loads(out)["rows"]:
        assert row["probabilities"]["grade=2"] == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["link", "water", "munin1"])
def test_real_files_with_such_labels(name):
    model = dai.read(data_folder("bif") / f"{name}.bif.gz")
    numbered = [v for v in model.variables if any(label.isdigit() for label in v.states)]
    for variable in model.variables:
        for index, label in enumerate(variable.states):
            assert variable.index_of(label) == variable.index_of(f"#{index}") == index
    assert numbered or name == "munin1"
    for variable in numbered:
        for index, label in enumerate(variable.states):
            if label.isdigit() and index != int(label) < variable.num_states:
                with pytest.raises(dai.EvidenceError, match="write the text"):
                    variable.index_of(int(label))


def test_rows_that_need_log_space_read_no_label():
    model = graded()
    wild = [dai.TableFactor(f.scope, 4000 * f.log_table) for f in model.factors]
    model = dai.FactorGraph(model.variables, wild)
    rows = torch.tensor([[1, -1, -1, -1], [0, -1, 1, -1]])
    answers = RowInference(model).answer(rows)
    assert answers.is_in_log_space.any()
    for row, evidence in enumerate(({"grade": "2"}, {"grade": "1", "grade2": "2"})):
        expected = Enumeration(model, evidence).log_partition()
        assert float(answers.log_partition[row]) == pytest.approx(expected)


def test_a_number_in_a_range_is_no_index():
    """Bins of a column of numbers: 2 lies in the first, and has the index of the last."""
    size = dai.Variable("size", ["<2.5", "2.5..7", ">=7"])
    assert [size.index_of(value) for value in ("2.5..7", "#2", dai.StateIndex(2))] == [1, 2, 2]
    for value in (2, 2.0, "2", 7):
        with pytest.raises(dai.EvidenceError, match=r"no state '\d(\.0)?' \(its states: <2\.5, "):
            size.index_of(value)
    with pytest.raises(dai.EvidenceError, match="write '#2' for the state of index 2"):
        size.index_of("2")
