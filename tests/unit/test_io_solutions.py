"""UAI solution files: log10 Z and marginals, as competitions write them and people break them."""

import math

import numpy as np
import pytest

from deltaai.errors import DeltaAIError, FormatError
from deltaai.io import (
    log10_partition_text,
    marginals_text,
    read,
    read_log10_partition,
    read_marginals,
)
from deltaai.models import FactorGraph, TableFactor, Variable

MODEL = FactorGraph([Variable("a", 2), Variable("b", 3)], [])


def written(folder, text, name="x.uai.PR"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("PR\n-12.5\n", -12.5),
        ("PR 3", 3.0),
        ("-7.25", -7.25),
        ("PR\n-BEGIN-\n1\n-BEGIN-\n2.5\n", 2.5),
        ("PR\n-inf\n", -math.inf),
    ],
)
def test_partition(tmp_path, text, value):
    assert read_log10_partition(written(tmp_path, text)) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no solution"),
        ("PR\n", "no solution"),
        ("PR\n-BEGIN-\n", "no solution"),
        ("MAR\n1 2 0.5 0.5", "expected a solution of PR"),
        ("PR 1 2", "expected one number"),
        ("PR nan", "expected log10 Z"),
        ("PR inf", "expected log10 Z"),
        ("PR\n1e", "expected a number"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_broken_partition(tmp_path, text, words):
    with pytest.raises(FormatError, match=words):
        read_log10_partition(written(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "MAR\n2 2 0.25 0.75 3 0.5 0.25 0.25",
        "MAR\n1\n2 2 0.25 0.75\n3 0.5 0.25 0.25\n",
        "2 2 0.25 0.75 3 0.5 0.25 0.25",
        "MAR\n-BEGIN-\n2 2 1 0 3 0 0 1\n-BEGIN-\n2 2 0.25 0.75 3 0.5 0.25 0.25",
    ],
)
def test_marginals(tmp_path, text):
    rows = read_marginals(written(tmp_path, text, "x.uai.MAR"), MODEL)
    assert [row.tolist() for row in rows] == [[0.25, 0.75], [0.5, 0.25, 0.25]]


def test_what_was_rounded_is_a_probability(tmp_path):
    text = "MAR 2 2 -1e-12 1.0000000000000004 3 0.5 0.25 0.25"
    rows = read_marginals(written(tmp_path, text, "x.uai.MAR"), MODEL)
    assert rows[0].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MAR", "no solution"),
        ("PR 1", "expected a solution of MAR"),
        ("MAR 1 2 0.5 0.5", "another model"),
        ("MAR 2 3 0.5 0.25 0.25 2 0.25 0.75", "'a' has 2 states"),
        ("MAR 2 2 0.25 0.75 3 0.5 0.25", "another model"),
        ("MAR 2 2 0.25 x 3 0.5 0.25 0.25", "expected a number"),
        ("MAR 2 2 -0.25 1.25 3 0.5 0.25 0.25", "give probabilities"),
        ("MAR 2 2 -0.00001 1 3 0.5 0.25 0.25", "give probabilities"),
        ("MAR 2 2 nan 0.5 3 0.5 0.25 0.25", "give probabilities"),
    ],
)
def test_broken_marginals(tmp_path, text, words):
    with pytest.raises(FormatError, match=words):
        read_marginals(written(tmp_path, text, "x.uai.MAR"), MODEL)


def test_a_single_variable_of_one_state(tmp_path):
    model = FactorGraph([Variable("a", 1)], [])
    rows = read_marginals(written(tmp_path, marginals_text([[1.0]])), model)
    assert [row.tolist() for row in rows] == [[1.0]]


def test_what_is_written_is_read(tmp_path):
    rows = [np.array([1 / 3, 2 / 3]), np.array([0.1, 0.2, 0.7])]
    path = written(tmp_path, marginals_text(rows))
    for row, again in zip(rows, read_marginals(path, MODEL), strict=True):
        assert row.tolist() == again.tolist()
    for value in (-math.pi * 1e5, 0.1, -math.inf):
        path = written(tmp_path, log10_partition_text(value))
        assert read_log10_partition(path) == value


def test_real_variables_have_no_such_rows(tmp_path):
    path = written(tmp_path, "MAR 1 2 0.5 0.5")
    real = FactorGraph([Variable("x", support=(0, 1))], [])
    with pytest.raises(DeltaAIError, match="real"):
        read_marginals(path, real)


def test_missing_file(tmp_path):
    with pytest.raises(FormatError, match="there is no such file"):
        read_log10_partition(tmp_path / "none.PR")


def test_the_model_may_be_a_path(tmp_path):
    from deltaai.io import write

    path = tmp_path / "model.uai"
    write(FactorGraph([Variable("a", 2)], [TableFactor(["a"], [0.0, 0.0])]), path)
    rows = read_marginals(written(tmp_path, "MAR 1 2 0.5 0.5"), read(path))
    assert len(rows) == 1
