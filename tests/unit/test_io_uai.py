"""UAI files: what is read, what is written, and that the one undoes the other."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from broken_files import VALID_EVIDENCE, VALID_UAI
from data_folder import data_folder
from deltaai.errors import ConversionError
from deltaai.io import read, read_evidence, write
from deltaai.io.source import Source
from deltaai.io.uai import format_uai, parse_uai
from deltaai.models import (
    ConditionalTable,
    FactorGraph,
    NeuralFactor,
    SpinCoupling,
    SpinField,
    TableFactor,
    Variable,
)


def parsed(text: str) -> FactorGraph:
    return parse_uai(Source("<string>", text))


def test_markov():
    model = parsed(VALID_UAI[0])
    assert [variable.name for variable in model.variables] == ["x0", "x1"]
    assert model.variables[1].states == ("0", "1", "2")
    first, second = model.factors
    assert isinstance(first, TableFactor)
    assert first.scope == ("x0",)
    assert second.scope == ("x0", "x1")
    expected = torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=torch.float64)
    assert torch.equal(second.log_table, expected.log())
    # x0 = 1, x1 = 0: the last variable is fastest, so its entry is the fourth
    assert model.log_score(torch.tensor([[1, 0]])).item() == pytest.approx(math.log(1.0 * 4))


def test_last_variable_of_the_scope_is_fastest_whatever_its_number():
    model = parsed("MARKOV 2 2 3 1 2 1 0 6  1 2  3 4  5 6")
    scores = model.log_score(torch.tensor([[0, 0], [1, 0], [0, 1], [1, 2]])).exp()
    assert scores.tolist() == pytest.approx([1, 2, 3, 6])


def test_bayes():
    model = parsed(VALID_UAI[1].replace("BAYES", "bayes"))
    first, second = model.factors
    assert isinstance(first, ConditionalTable)
    assert isinstance(second, ConditionalTable)
    assert (second.child, second.parents) == ("x1", ("x0",))
    assert second.log_table.exp().flatten().tolist() == pytest.approx([0.1, 0.9, 0.8, 0.2])


def test_same_model_as_built_by_hand():
    by_hand = FactorGraph(
        [Variable("x0", 2), Variable("x1", 3)],
        [
            TableFactor.from_values(["x0"], [0.5, 1.0]),
            TableFactor.from_values(["x0", "x1"], [[1, 2, 3], [4, 5, 6]]),
        ],
    )
    assert parsed(VALID_UAI[0]).content_hash() == by_hand.content_hash()


def test_comments_zeros_one_state_and_no_scope():
    model = parsed("c made by hand\nMARKOV\n2\n1 2\nc 7 functions?\n2\n0\n2 0 1\n1\n2.5\n2\n0 1\n")
    constant, table = model.factors
    assert constant.scope == ()
    assert table.log_table.tolist() == [[-math.inf, 0.0]]
    assert model.log_score(torch.tensor([[0, 1]])).item() == math.log(2.5)


def test_comment_lines_count_in_error_messages():
    with pytest.raises(Exception, match="line 4"):
        parsed("c one\nMARKOV\nc three\nx\n")


def test_byte_order_mark_and_line_ends(tmp_path):
    for number, end in enumerate((b"\r\n", b"\r")):
        path = tmp_path / f"{number}.UAI"
        path.write_bytes(b"\xef\xbb\xbf" + VALID_UAI[0].encode().replace(b"\n", end))
        assert read(path).content_hash() == parsed(VALID_UAI[0]).content_hash()


@pytest.mark.parametrize("text", VALID_EVIDENCE)
def test_evidence(text, tmp_path):
    path = tmp_path / "grid.uai.evid"
    path.write_text(text)
    expected = {} if text == "0\n" else {"x0": 1, "x1": 2}
    assert read_evidence(path) == expected
    named = FactorGraph([Variable("rain", 2), Variable("wet", 3)])
    assert list(read_evidence(path, named)) == ["rain", "wet"][: len(expected)]


def test_evidence_without_observations_in_the_older_header(tmp_path):
    path = tmp_path / "grid.uai.evid"
    path.write_text("1\n0\n")
    assert read_evidence(path) == {}


def test_written_text():
    assert format_uai(parsed(VALID_UAI[1])) == (
        "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n 0.5 0.5\n\n4\n 0.1 0.9\n 0.8 0.2\n"
    )


def test_models_without_variables_or_factors():
    for text in ("MARKOV\n0\n\n0\n", "MARKOV\n2\n2 3\n0\n"):
        model = parsed(text)
        assert parsed(format_uai(model)).content_hash() == model.content_hash()
    constant = FactorGraph([], [TableFactor([], 1.5)])
    assert parsed(format_uai(constant)).content_hash() == constant.content_hash()


def mixed_model() -> FactorGraph:
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    names = [Variable("a"), Variable("b"), Variable("c", 3)]
    return FactorGraph(
        names,
        [
            NeuralFactor(["a", "c"], net),
            SpinCoupling("a", "b", 0.3),
            TableFactor([], 0.7),
            ConditionalTable("b", ["a"], [[0.1, 0.9], [0.5, 0.5]]),
            SpinField("a", -1.2),
        ],
    )


def test_every_kind_of_factor_is_written_as_a_table():
    model = mixed_model()
    again = parsed(format_uai(model))
    assert all(isinstance(factor, TableFactor) for factor in again.factors)
    x = torch.cartesian_prod(torch.arange(2), torch.arange(2), torch.arange(3))
    torch.testing.assert_close(again.log_score(x), model.log_score(x).detach())
    assert format_uai(again) == format_uai(model)
    # the constant became a table over the first variable, because other readers refuse no scope
    assert again.factors[2].scope == ("x0",)


def test_single_precision():
    model = mixed_model().to(dtype=torch.float32)
    again = parsed(format_uai(model))
    assert format_uai(again) == format_uai(model)


def test_conditional_tables_that_are_no_network_are_written_as_markov():
    cyclic = FactorGraph(
        [Variable("a"), Variable("b")],
        [
            ConditionalTable("a", ["b"], [[0.1, 0.9], [0.5, 0.5]]),
            ConditionalTable("b", ["a"], [[0.1, 0.9], [0.5, 0.5]]),
        ],
    )
    assert format_uai(cyclic).startswith("MARKOV")
    lacking = FactorGraph([Variable("a"), Variable("b")], [ConditionalTable("a", [], [0.5, 0.5])])
    assert format_uai(lacking).startswith("MARKOV")


@pytest.mark.parametrize("log_value", [710.0, -750.0, -740.3])
def test_values_that_fit_no_double_are_refused(log_value):
    model = FactorGraph([Variable("a")], [TableFactor(["a"], [0.0, log_value])])
    with pytest.raises(ConversionError, match="does not fit in a double"):
        format_uai(model)


def test_neural_factors_with_huge_tables_are_refused():
    names = [f"v{v}" for v in range(40)]
    model = FactorGraph([Variable(n) for n in names], [NeuralFactor(names, nn.Linear(40, 1))])
    with pytest.raises(ConversionError, match="at most"):
        format_uai(model)


def test_infinite_neural_factor_is_refused():
    net = nn.Linear(1, 1)
    nn.init.constant_(net.weight, math.inf)
    model = FactorGraph([Variable("a")], [NeuralFactor(["a"], net)])
    with pytest.raises(ConversionError, match=r"factor over \(a\)"):
        format_uai(model)


def test_smallest_and_largest_numbers_come_back():
    text = "MARKOV 1 5 1 1 0 5 5e-324 1.7976931348623157e308 2.2250738585072014e-308 3e-310 1"
    model = parsed(text)
    assert parsed(format_uai(model)).content_hash() == model.content_hash()


def test_random_numbers_come_back():
    generator = np.random.default_rng(0)
    values = np.exp(generator.normal(scale=20, size=4000))
    text = "MARKOV 1 4000 1 1 0 4000 " + " ".join(map(repr, values.tolist()))
    model = parsed(text)
    again = parsed(format_uai(model))
    assert torch.equal(again.factors[0].log_table, model.factors[0].log_table)
    # and log-values that no double is the exponential of move by the last bit only
    free = torch.from_numpy(generator.normal(scale=3, size=4000))
    moved = parsed(format_uai(FactorGraph([Variable("a", 4000)], [TableFactor(["a"], free)])))
    change = (moved.factors[0].log_table - free).abs()
    assert bool((change <= 2.3e-16 * free.abs().clamp(min=1)).all())


def test_compressed_files_are_the_same_every_time(tmp_path):
    model = parsed(VALID_UAI[0])
    write(model, tmp_path / "a.uai.gz")
    write(model, tmp_path / "b.uai.gz")
    assert (tmp_path / "a.uai.gz").read_bytes() == (tmp_path / "b.uai.gz").read_bytes()
    assert read(tmp_path / "a.uai.gz").content_hash() == model.content_hash()


def test_real_files():
    folder = data_folder("uai")
    index = json.loads((folder / "index.json").read_text())
    paths = sorted(folder.glob("*.uai"))
    assert len(paths) == len(index)
    for path in paths:
        model, expected = read(path), index[path.stem]
        evidence = read_evidence(f"{path}.evid", model)
        sizes = model.num_states
        tables = [group.log_tables().flatten() for group in model.groups]
        found = {
            "variables": model.num_variables,
            "card_min": int(sizes.min()),
            "card_max": int(sizes.max()),
            "factors": model.num_factors,
            "max_arity": max(group.arity for group in model.groups),
            "table_entries": sum(len(table) for table in tables),
            "zero_entries": sum(int((table == -math.inf).sum()) for table in tables),
            "evidence": len(evidence),
        }
        assert found == {key: expected[key] for key in found}, path.name
        text = format_uai(model)
        again = parsed(text)
        assert again.content_hash() == model.content_hash(), path.name
        assert format_uai(again) == text, path.name
