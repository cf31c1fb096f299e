"""BIF files: what is read, what is written, and that the one undoes the other."""

from __future__ import annotations

import gzip
import importlib

import pytest
import torch

from broken_files import VALID_BIF
from data_folder import data_folder
from deltaai.errors import ConversionError, FormatError
from deltaai.io import from_pgmpy, from_pyagrum, read, write
from deltaai.io.bif import rows as bif_rows
from deltaai.io.bif.reader import parse_bif
from deltaai.io.bif.writer import format_bif
from deltaai.io.source import Source
from deltaai.models import ConditionalTable, FactorGraph, TableFactor, Variable


def parsed(text: str) -> FactorGraph:
    return parse_bif(Source("<string>", text))


def tables(model: FactorGraph) -> dict[str, list]:
    return {factor.scope[-1]: factor.log_table.exp().tolist() for factor in model.factors}


def test_names_states_and_rows():
    model = parsed(VALID_BIF[0])
    assert model.variables == (
        Variable("rain", ["no", "yes"]),
        Variable("wet", ["dry", "damp", "soaked"]),
    )
    rain, wet = model.factors
    assert isinstance(rain, ConditionalTable)
    assert (wet.child, wet.parents) == ("wet", ("rain",))
    assert tables(model)["wet"] == [pytest.approx([0.9, 0.1, 0.0]), pytest.approx([0.2, 0.3, 0.5])]


def test_quotes_comments_properties_defaults():
    model = parsed(VALID_BIF[1])
    assert model.variables[0] == Variable("rain today", ["no", "yes, much"])
    assert model.variables[2].states == ("table", "default")
    assert tables(model)["c"] == [
        [pytest.approx([0.1, 0.9]), pytest.approx([0.5, 0.5])],
        [pytest.approx([0.5, 0.5]), pytest.approx([0.001, 0.999])],
    ]


TWO_PARENTS = """
variable a { type discrete [ 2 ] { a0, a1 }; }
variable b { type discrete [ 3 ] { b0, b1, b2 }; }
variable c { type discrete [ 2 ] { c0, c1 }; }
probability ( c | a, b ) { ROWS }
probability ( a ) { table 0.5, 0.5; }
probability ( b ) { table 0.2, 0.3, 0.5; }
"""
ROWS = """
(a0, b0) 1, 7; (a1, b0) 4, 10; (a0, b1) 2, 8;
(a1, b1) 5, 11; (a0, b2) 3, 9; (a1, b2) 6, 12;
"""


def test_rows_in_any_order_and_a_whole_table_agree():
    """In a whole table the child is slowest, the last parent fastest, as for other readers."""
    by_rows = parsed(TWO_PARENTS.replace("ROWS", ROWS))
    expected = torch.tensor([[[1, 7], [2, 8], [3, 9]], [[4, 10], [5, 11], [6, 12]]]).double()
    assert torch.equal(by_rows.factors[0].log_table, expected.log())
    whole = parsed(TWO_PARENTS.replace("ROWS", "table 1 2 3 4 5 6, 7, 8, 9, 10, 11, 12;"))
    assert whole.content_hash() == by_rows.content_hash()
    # the order of factors is that of the blocks
    assert [factor.scope[-1] for factor in by_rows.factors] == ["c", "a", "b"]


def test_statements_and_rectangle_agree(monkeypatch):
    text = TWO_PARENTS.replace("ROWS", ROWS)
    fast = parsed(text).content_hash()

    def never(*_):
        raise bif_rows._Irregular

    monkeypatch.setattr(bif_rows, "_rectangle", never)
    assert parsed(text).content_hash() == fast
    folder = data_folder("bif")
    for name in ("child", "water", "hepar2"):
        slow = read(folder / f"{name}.bif.gz").content_hash()
        monkeypatch.undo()
        assert read(folder / f"{name}.bif.gz").content_hash() == slow
        monkeypatch.setattr(bif_rows, "_rectangle", never)


def test_rows_with_numbers_as_states_are_not_confused_with_entries():
    text = """
    variable a { type discrete [ 2 ] { 0, 1 }; }
    variable b { type discrete [ 2 ] { 0, 1 }; }
    probability ( a ) { table 0.5, 0.5; }
    probability ( b | a ) { (0) 0 ; (1) 1 0 1; }
    """
    with pytest.raises(FormatError, match="expected 2 numbers, found 1"):
        parsed(text)


@pytest.mark.parametrize(
    "label", ["<5", ">=10", "5-10", "Asy/Patch", "a+b", "10%", "x=1", "é", "1.5", "a'b", "*"]
)
def test_unusual_names_need_no_quotes(label):
    text = VALID_BIF[0].replace("yes", label).replace("rain", f"v{label}")
    model = parsed(text)
    assert model.variables[0] == Variable(f"v{label}", ["no", label])
    assert f'"{label}"' not in format_bif(model)
    assert parsed(format_bif(model)).content_hash() == model.content_hash()


@pytest.mark.parametrize(
    "label", ["a b", "", "a,b", "(x)", "{", "}", "|", ";", "//", "a/*b", "[2]", "property", "table"]
)
def test_other_names_are_quoted(label):
    model = FactorGraph(
        [Variable(f"v {label}", [label, "other"]), Variable("wet", [f"x{label}", "y"])],
        [
            ConditionalTable(f"v {label}", [], [0.25, 0.75]),
            ConditionalTable("wet", [f"v {label}"], [[0.5, 0.5], [1.0, 0.0]]),
        ],
    )
    assert parsed(format_bif(model)).content_hash() == model.content_hash()


def test_states_named_like_keywords():
    text = VALID_BIF[0].replace("no", "property").replace("yes", "default")
    assert parsed(text).variables[0].states == ("property", "default")


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a\rb"])
def test_names_that_cannot_be_written(name):
    model = FactorGraph([Variable(name)], [ConditionalTable(name, [], [0.5, 0.5])])
    with pytest.raises(ConversionError, match="rename"):
        format_bif(model)


def test_models_that_are_not_bayesian_networks():
    a, b = Variable("a"), Variable("b")
    half, rows = [0.5, 0.5], [[0.1, 0.9], [0.5, 0.5]]
    for factors, reason in (
        ([TableFactor.from_values(["a", "b"], rows)], r"over \(a, b\) is not a ConditionalTable"),
        ([ConditionalTable("a", [], half)], "no factor is the conditional table of 'b'"),
        ([ConditionalTable("a", [], half), ConditionalTable("a", ["b"], rows)], "of 'a'"),
        ([ConditionalTable("a", ["b"], rows), ConditionalTable("b", ["a"], rows)], "a -> b -> a"),
    ):
        with pytest.raises(ConversionError, match=reason):
            format_bif(FactorGraph([a, b], factors))
    with pytest.raises(ConversionError, match="no variables"):
        format_bif(FactorGraph([]))


def test_rows_that_do_not_sum_to_one_are_kept():
    model = parsed(VALID_BIF[0].replace("0.8, 0.2", "0.8, 0.1"))
    assert tables(model)["rain"] == pytest.approx([0.8, 0.1])


def test_written_text(tmp_path):
    write(parsed(VALID_BIF[0]), tmp_path / "wet.bif")
    assert (tmp_path / "wet.bif").read_text() == VALID_BIF[0]


def test_long_hostile_texts_take_linear_time():
    """Each of these is quadratic for a parser that goes back after a failure."""
    many = 200_000
    for text in (
        "network " + " " * many + "x y",
        "network n { " + "property { " * many,
        "/* " * many,
        '"' * (2 * many) + '"',
        "variable x { type discrete [ 1 ] { " + "a " * many,
        "probability ( x | " + "y, " * many + ") { }",
        "variable x { type discrete [ 2 ] { a b }; }\n"
        "probability ( x ) { default 0.5 0.5;" + " ; " * many + "}",
        "variable x { type discrete [ 2 ] { a b }; }\n"
        "probability ( x ) { " + "\n(a) 0.5 0.5" * many + "}",
    ):
        with pytest.raises(FormatError):
            parsed(text)


@pytest.mark.parametrize(("peer", "name"), [("pyagrum", "alarm"), ("pgmpy", "child")])
def test_other_readers_agree(peer, name, tmp_path):
    """pyAgrum keeps single precision and cannot read child.bif; pgmpy is slow on larger files."""
    library = pytest.importorskip(peer)
    model = read(data_folder("bif") / f"{name}.bif.gz")
    path = tmp_path / "network.bif"
    path.write_bytes(gzip.decompress((data_folder("bif") / f"{name}.bif.gz").read_bytes()))
    if peer == "pyagrum":
        other = from_pyagrum(library.loadBN(str(path)))
    else:
        reader = importlib.import_module("pgmpy.readwrite").BIFReader(str(path))
        other = from_pgmpy(reader.get_model())
    generator = torch.Generator().manual_seed(0)
    states = [torch.randint(v.num_states, (200,), generator=generator) for v in model.variables]
    permuted = torch.empty(200, model.num_variables, dtype=torch.long)
    for variable, column in zip(model.variables, states, strict=True):
        place = other.index(variable.name)
        labels = [other.variables[place].states.index(label) for label in variable.states]
        permuted[:, place] = torch.tensor(labels)[column]
    scores = model.log_score(torch.stack(states, 1))
    assert bool(scores.isfinite().any())
    torch.testing.assert_close(other.log_score(permuted), scores, rtol=1e-6, atol=1e-5)


def test_real_files():
    folder = data_folder("bif")
    paths = sorted(folder.glob("*.bif.gz"))
    assert paths
    for path in paths:
        model = read(path)
        assert all(isinstance(factor, ConditionalTable) for factor in model.factors)
        assert model.num_factors == model.num_variables
        for group in model.groups:
            assert bool(((group.log_tables().exp().sum(-1) - 1).abs() < 0.02).all()), path.name
        text = format_bif(model)
        again = parsed(text)
        assert again.content_hash() == model.content_hash(), path.name
        assert format_bif(again) == text, path.name
