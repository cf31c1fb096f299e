"""Readers under attack: a damaged file gives a model or one of our errors, nothing else.

And random models: writing undoes reading and the other way round, to the byte.
"""

from __future__ import annotations

import contextlib
import gzip
import math
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broken_files import BROKEN_FILES, VALID_BIF, VALID_EVIDENCE, VALID_UAI
from deltaai.errors import DeltaAIError
from deltaai.io import FORMATS, Format, read, read_evidence
from deltaai.io.bif.reader import parse_bif
from deltaai.io.bif.writer import format_bif
from deltaai.io.decimals import logarithms, to_decimals
from deltaai.io.source import Source
from deltaai.io.uai import format_uai, parse_uai
from deltaai.io.uai_evidence import parse_evidence
from deltaai.models import ConditionalTable, FactorGraph, TableFactor, Variable

MANY = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SOME = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TOKEN = re.compile(r"[\w.\"+-]+|\s+|[^\w\s]")
PARSERS = {"uai": parse_uai, "bif": parse_bif, "evid": parse_evidence}
VALID = {
    "uai": [*VALID_UAI, "MARKOV\n3\n1 2 2\n3\n0\n3 2 0 1\n1 0\n1\n2.0\n4\n1 0 0 1\n1\n0.5\n"],
    "bif": list(VALID_BIF),
    "evid": list(VALID_EVIDENCE),
}
HOSTILE = [
    "0",
    "-1",
    "1e999",
    "nan",
    "99999999999999999999999999",
    "1000000",
    "31",
    "x",
    "{",
    "}",
    "(",
    ")",
    ";",
    "|",
    ",",
    '"',
    "//",
    "/*",
    "*/",
    "\n",
    "\x01",
    "\x00",
    "table",
    "default",
    "property",
    "variable",
    "probability",
    "é",
    "\u2028",
    "٣",
    "1_0",
    "",
]


def must_be_handled(parse, text: str) -> None:
    try:
        answer = parse(Source("<string>", text))
    except DeltaAIError:
        return
    assert isinstance(answer, FactorGraph | dict)


@st.composite
def damaged(draw, kind: str) -> str:
    """A valid text with tokens deleted, doubled, replaced or exchanged, perhaps cut short."""
    tokens = TOKEN.findall(draw(st.sampled_from(VALID[kind])))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(tokens) - 1))
        other = draw(st.integers(0, len(tokens) - 1))
        match draw(st.sampled_from(["delete", "double", "replace", "insert", "exchange", "cut"])):
            case "delete":
                tokens[place] = ""
            case "double":
                tokens[place] *= 2
            case "replace":
                tokens[place] = draw(st.sampled_from(HOSTILE) | st.text(max_size=5))
            case "insert":
                tokens[place] += " " + draw(st.sampled_from(HOSTILE)) + " "
            case "exchange":
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case "cut":
                tokens[place:] = [tokens[place][: draw(st.integers(0, len(tokens[place])))]]
    return "".join(tokens)


@pytest.mark.parametrize("kind", PARSERS)
def test_damaged_texts(kind):
    @MANY
    @given(damaged(kind))
    def check(text):
        must_be_handled(PARSERS[kind], text)

    check()


@pytest.mark.parametrize("kind", PARSERS)
def test_random_texts(kind):
    words = st.sampled_from([*HOSTILE, *TOKEN.findall(VALID[kind][0])])

    @SOME
    @given(st.text() | st.lists(words, max_size=60).map(" ".join))
    def check(text):
        must_be_handled(PARSERS[kind], text)

    check()


@pytest.mark.parametrize("suffix", [".uai", ".bif", ".uai.gz", ".bif.gz", ".evid"])
def test_random_bytes(suffix):
    valid = gzip.compress(VALID_UAI[0].encode()) if suffix.endswith(".gz") else b"MARKOV 1 2 0"

    @SOME
    @given(st.binary(max_size=200), st.integers(0, len(valid)), st.booleans())
    def check(noise, place, is_inside):
        content = valid[:place] + noise + valid[place:] if is_inside else noise
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"noise{suffix}"
            path.write_bytes(content)
            with contextlib.suppress(DeltaAIError):
                read_evidence(path) if suffix == ".evid" else read(path)

    check()


@pytest.mark.parametrize("kind", ["uai", "bif"])
def test_every_cut_of_a_valid_file(kind):
    for text in VALID[kind]:
        for length in range(len(text)):
            must_be_handled(PARSERS[kind], text[:length])


def test_every_broken_file_cut_in_half():
    for suffix, content, _ in BROKEN_FILES.values():
        kind = suffix.split(".")[1]
        if kind in PARSERS and not suffix.endswith(".gz"):
            text = content[: len(content) // 2].decode(errors="replace")
            must_be_handled(PARSERS[kind], text)


def test_formats_and_parsers_fit():
    texts = {suffix for suffix, each in FORMATS.items() if isinstance(each, Format)}
    assert {suffix.removeprefix(".") for suffix in texts} == set(PARSERS) - {"evid"}


# -- writing and reading ----------------------------------------------------------------------

# Doubles from exp(-700) to exp(700), so that every exponential exists.
log_values = st.floats(-700, 700) | st.floats(-2, 2) | st.just(-math.inf)


@MANY
@given(st.lists(log_values, min_size=1, max_size=30))
def test_decimals_are_a_fixed_point(values):
    written = to_decimals(np.array(values))
    came_back = logarithms(np.array([float(text) for text in written]))
    np.testing.assert_allclose(came_back, values, rtol=4.5e-16, atol=2.3e-16)
    assert to_decimals(came_back) == written


@MANY
@given(st.floats(0, 1e308, allow_subnormal=True) | st.decimals(0, 1, places=6).map(float))
def test_decimals_of_a_number_are_not_longer_than_the_number(value):
    (written,) = to_decimals(logarithms(np.array([value])))
    assert len(written) <= len(repr(value))
    assert logarithms(np.array([float(written)])) == logarithms(np.array([value]))


@st.composite
def markov_networks(draw) -> FactorGraph:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    factors = []
    for _ in range(draw(st.integers(0, 5))):
        scope = draw(st.lists(st.integers(0, len(sizes) - 1), max_size=3, unique=True))
        shape = [sizes[v] for v in scope]
        count = math.prod(shape)
        entries = draw(st.lists(log_values, min_size=count, max_size=count))
        if all(entry == -math.inf for entry in entries):
            entries[0] = 0.0
        table = torch.tensor(entries, dtype=torch.float64).reshape(shape)
        factors.append(TableFactor([f"x{v}" for v in scope], table))
    return FactorGraph([Variable(f"x{v}", size) for v, size in enumerate(sizes)], factors)


names = st.text(
    st.characters(exclude_characters='"\n\r\x01\x02', exclude_categories=["Cs"]), min_size=1
)


@st.composite
def bayesian_networks(draw) -> FactorGraph:
    called = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    variables = [
        Variable(name, draw(st.lists(names, min_size=1, max_size=3, unique=True)))
        for name in called
    ]
    order = draw(st.permutations(range(len(variables))))
    factors = []
    for place, child in enumerate(order):
        known = draw(st.lists(st.sampled_from(order[:place] or [child]), max_size=3, unique=True))
        parents = [parent for parent in known if parent != child]
        shape = [variables[v].num_states for v in (*parents, child)]
        count = math.prod(shape)
        weights = draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))
        table = np.array(weights).reshape(shape) + (0.0 if any(weights) else 1.0)
        chosen = [called[parent] for parent in parents]
        factors.append(ConditionalTable(called[child], chosen, table))
    return FactorGraph(variables, factors)


@SOME
@given(markov_networks())
def test_markov_networks_through_uai(model):
    text = format_uai(model)
    again = parse_uai(Source("<string>", text))
    assert format_uai(again) == text
    assert again.variables == model.variables
    grid = torch.cartesian_prod(*(torch.arange(v.num_states) for v in model.variables))
    grid = grid.reshape(-1, model.num_variables)
    torch.testing.assert_close(again.log_score(grid), model.log_score(grid), rtol=1e-14, atol=1e-13)
    assert parse_uai(Source("<string>", format_uai(again))).content_hash() == again.content_hash()


@SOME
@given(bayesian_networks())
def test_bayesian_networks_through_bif_and_uai(model):
    text = format_bif(model)
    again = parse_bif(Source("<string>", text))
    assert again.content_hash() == model.content_hash()
    assert format_bif(again) == text
    unnamed = parse_uai(Source("<string>", format_uai(model)))
    for before, after in zip(model.factors, unnamed.factors, strict=True):
        assert isinstance(after, ConditionalTable)
        assert torch.equal(before.log_table, after.log_table)
