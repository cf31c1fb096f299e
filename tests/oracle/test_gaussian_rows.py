"""Tables of cases about Gaussian models, against one question a row."""

import json
import math

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.exact.gaussian.factor import Factor


def walk(count=8, switched=True):
    """A chain with a switch of its noise, a vector, and a share between 0 and 1."""
    variables = [dai.Variable("s", ["calm", "storm"]), dai.Variable("only", ["one"])]
    variables += [dai.Variable(f"x{n}", support="line") for n in range(count)]
    variables += [dai.Variable("hand", support="line", dimension=2)]
    variables += [dai.Variable("share", support=(0, 1))]
    factors = [dai.TableFactor("s", [0.2, -0.4]), dai.GaussianFactor("x0", 0.5, 2.0)]
    for n in range(1, count):
        factors.append(
            dai.LinearGaussian(
                f"x{n}", [f"x{n - 1}"], [[0.9], [0.5]], 0.1, [0.3, 1.0 + 0.1 * n], given=["s"]
            )
        )
    factors.append(dai.GaussianFactor("hand", [0.0, 1.0], [[1.0, 0.2], [0.2, 0.5]]))
    factors.append(dai.LinearGaussian("share", ["hand[0]", "x3"], [0.3, -0.2], 0.4, 0.6))
    return dai.FactorGraph(variables, factors)


def some_rows(model, count=40, seed=0):
    """Rows of a few patterns, with both states."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        row = {"s": ["calm", "storm"][int(rng.integers(2))], "share": float(rng.uniform())}
        for name in [["x1"], ["x2", "x5"], ["hand[0]"], []][number % 4]:
            row[name] = float(rng.normal())
        rows.append(row)
    return rows


def test_every_row_is_the_answer_to_its_own_question():
    model, rows = walk(), some_rows(walk())
    answer = dai.query_table(model, rows)
    assert set(answer.status) == {"exact"}
    assert (answer.stderr == 0).all()
    for number, row in enumerate(rows):
        alone = dai.query(model, row)
        assert answer.log_partition[number] == pytest.approx(alone.log_partition, abs=1e-9)
        found = answer.marginals(number)
        for name, marginal in alone.marginals.items():
            if isinstance(marginal, np.ndarray):
                np.testing.assert_allclose(found[name], marginal)
                continue
            ends = marginal.quantile(np.array([0.025, 0.975]))
            expected = [marginal.mean, marginal.deviation, *ends]
            np.testing.assert_allclose(found[name], expected, atol=1e-9)


def test_rows_that_observe_the_same_share_one_factor(monkeypatch):
    model, rows, made = walk(), some_rows(walk(), 200), []
    real = Factor.of.__func__
    monkeypatch.setattr(
        Factor, "of", classmethod(lambda cls, *given: made.append(1) or real(cls, *given))
    )
    dai.query_table(model, rows, of=["x0"])
    assert len(made) == 8  # four patterns, with two states each


def test_samples_of_rows():
    model = walk()
    rows = [
        {"s": "storm", "share": 0.2, "x1": 0.4, "hand": [0.1, 0.2]},
        {"s": "calm", "share": 0.9},
    ]
    answer = dai.query_table(model, rows, samples=4000, seed=3)
    assert answer.samples.shape == (2, 4000, model.num_variables)
    for number in range(2):
        drawn = answer.samples[number].numpy()
        found = answer.marginals(number)
        for column, variable in enumerate(model.variables):
            if not variable.is_real:
                continue
            mean, deviation, *_ = found[variable.name]
            assert abs(drawn[:, column].mean() - mean) <= 5 * deviation / math.sqrt(4000) + 1e-12
            assert drawn[:, column].std() == pytest.approx(deviation, rel=0.1, abs=1e-12)
    cells = next(answer.sample_cells())
    assert cells[:3] == ["0", "0", "storm"]


def test_frames_and_csv_files(tmp_path, run):
    pandas = pytest.importorskip("pandas")
    model, rows = walk(), some_rows(walk(), 12)
    frame = pandas.DataFrame(rows, index=[f"case {n}" for n in range(12)])
    found = dai.query(model, frame, of=["x0", "s"])
    columns = ["x0 mean", "x0 deviation", "x0 2.5%", "x0 97.5%", "s=calm", "s=storm"]
    assert list(found.columns[:6]) == columns
    assert list(found.index) == list(frame.index)
    cases, field = tmp_path / "cases.csv", tmp_path / "walk.dai"
    frame.to_csv(cases, index=False)
    dai.write(model, field)
    code, out, err = run("query", field, "--evidence-file", cases, "--of", "x0,s", "--csv")
    assert (code, "cases" not in err or "error" not in err) == (0, True)
    lines = out.splitlines()
    assert lines[0].startswith(",".join(columns))
    assert float(lines[5].split(",")[0]) == pytest.approx(found["x0 mean"].iloc[4])
    code, out, _ = run("query", field, "--evidence-file", cases, "--of", "x0", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["rows"][0]["probabilities"]["x0 mean"] == pytest.approx(
        found["x0 mean"].iloc[0]
    )


def test_rows_as_a_tensor():
    model = walk()
    rows = torch.full((2, model.num_variables), torch.nan, dtype=torch.float64)
    rows[:, 0], rows[:, -1], rows[1, 4] = 1, 0.5, 2.0
    found = dai.query_table(model, rows)
    expected = dai.query(model, {"s": "storm", "share": 0.5, "x2": 2.0})
    assert found.log_partition[1] == pytest.approx(expected.log_partition)


def test_impossible_rows():
    variables = [dai.Variable("s", ["a", "b"]), dai.Variable("x", support="line")]
    factors = [dai.TableFactor("s", [0.0, -math.inf]), dai.LinearGaussian("x")]
    found = dai.query_table(dai.FactorGraph(variables, factors), [{"s": "b"}, {"s": "a"}])
    assert found.status == ("impossible", "exact")
    assert found.log_partition[0] == -math.inf
    assert np.isnan(found.probabilities[0]).all()
    assert found.log_partition[1] == pytest.approx(0.0)


def test_rows_that_observe_all_that_is_real():
    """Readings of a hidden state: each row has tables alone."""
    variables = [dai.Variable("s", ["a", "b"]), dai.Variable("x", support="line")]
    model = dai.FactorGraph(
        variables, [dai.LinearGaussian("x", given=["s"], bias=[0.0, 2.0], scale=[1.0, 1.0])]
    )
    found = dai.query_table(model, [{"x": 0.0}, {"x": 1.0}, {"x": 3.0}], of=["s"])
    share = 1 / (1 + np.exp([-2.0, 0.0, 4.0]))
    np.testing.assert_allclose(found.probabilities[:, 0], share)
    assert set(found.status) == {"exact"}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"s": "calm"}], "'share' is a number from 0 to 1, and is not observed in every row"),
        ([{"share": 0.5}], "'s' has states, and is not observed in every row"),
        ([{"s": "calm", "share": 2.0}], "row 1: variable 'share' is a number from 0 to 1, not 2"),
        ([{"s": "calm", "share": "low"}], "not 'low'"),
        ([{"s": "calm", "share": math.inf}], "not inf"),
        ([{"y": 0.5}], "no variable 'y'"),
        ([{"hand": [1.0]}], "2 coordinates"),
        (torch.zeros(2, 3), "give numbers of shape"),
        (torch.full((1, 13), 0.5), "values that their variables cannot have"),
        (torch.full((1, 13), math.inf), "values that their variables cannot have"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_line(rows, says):
    with pytest.raises(dai.DeltaAIError, match=says) as caught:
        dai.query_table(walk(), rows)
    assert "\n" not in str(caught.value)
