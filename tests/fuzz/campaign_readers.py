"""Spoilt model and evidence files against the readers."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from hypothesis import strategies as st

import deltaai as dai
from broken_files import VALID_BIF, VALID_UAI
from deltaai.io import read_evidence_table
from deltaai.io.bif.writer import format_bif
from deltaai.io.source import Source
from deltaai.io.uai import format_uai, parse_uai
from fuzz.mutations import mutated, spoilt_gzip, words
from fuzz.watching import refused_or, repeat

UAI = (
    *(text.encode() for text in VALID_UAI),
    format_uai(dai.zoo.potts_lattice(side=2, states=3, sigma=0.5, seed=0)).encode(),
    format_uai(dai.zoo.random_bayesian_network(6, max_parents=2, max_states=3, seed=0)).encode(),
    b"c a comment\nmarkov 3 2 1 2 2 0 2 0 2 1 5.0 4 1 2 3 0",
)
BIF = (
    *(text.encode() for text in VALID_BIF),
    format_bif(dai.zoo.sprinkler()).encode(),
    format_bif(dai.zoo.random_bayesian_network(6, max_parents=2, max_states=3, seed=0)).encode(),
)
TABLES = (b"x0,x1\n0,1\n1,\n", b"x1\n2\n", b'"x0"\r\n"0"\r\n')
EVIDENCE = (b"1\n2 0 1 1 0\n", b"2 0 1 1 2\n", b"0\n", b"2\n1 0 1\n1 0 0\n")
MODEL = parse_uai(Source("<string>", VALID_UAI[0]))

# Words that look like a file for a while.
_counts = st.integers(0, 5).map(str)
uai_like = st.lists(st.one_of(_counts, _counts, _counts, words), max_size=30).map(
    lambda found: ("MARKOV " + " ".join(found)).encode("utf-8", "surrogatepass")
)


def _contents(suffix: str) -> st.SearchStrategy[bytes]:
    plain = {
        ".uai": st.one_of(mutated(UAI), mutated(UAI), uai_like, st.binary(max_size=200)),
        ".bif": st.one_of(mutated(BIF), mutated(BIF), mutated(BIF), st.binary(max_size=200)),
        ".csv": st.one_of(mutated(TABLES), st.binary(max_size=200)),
        ".evid": st.one_of(mutated(EVIDENCE), uai_like.map(lambda text: text[7:]), st.binary()),
    }
    first, _, second = suffix[1:].partition(".")
    return spoilt_gzip(plain[f".{first}"]) if second else plain[suffix]


def spoilt_files(suffix: str, max_examples: int) -> None:
    """Read spoilt files: each is a model (or evidence), or is refused with one line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"spoilt{suffix}"

        def attempt(content: bytes) -> None:
            path.write_bytes(content)
            read_one(path)

        repeat(_contents(suffix), max_examples, attempt)


def read_one(path: Path) -> None:
    """Read a file; use a model that comes of it, and write it."""
    if ".csv" in path.name:
        rows = refused_or(read_evidence_table, path, MODEL)
        assert rows is None or rows.shape[1] == MODEL.num_variables
        return
    if ".evid" in path.name:
        without, given_model = (
            refused_or(dai.read_evidence, path),
            refused_or(dai.read_evidence, path, MODEL),
        )
        assert without is None or all(isinstance(state, int) for state in without.values())
        if given_model is not None:
            MODEL.resolve_evidence(given_model)
        return
    model = refused_or(dai.read, path)
    if model is None:
        return
    assert isinstance(model, dai.FactorGraph)
    if model.num_variables:
        first = model.num_states.new_zeros((1, model.num_variables))
        assert not bool(model.log_score(first).isnan().any())
    written = path.with_name("written" + "".join(path.suffixes))
    refused_or(dai.write, model, written)
    if written.exists():
        again = dai.read(written)
        assert again.num_variables == model.num_variables
        written.unlink()
    assert [found.name for found in path.parent.iterdir()] == [path.name]


# Small files that claim to be large, or that are large and nothing else.
CLAIMS = {
    "variables.uai": b"MARKOV\n1000000000\n2 2\n",
    "states.uai": b"MARKOV\n2\n1000000 1000000\n1\n2 0 1\n1000000000000\n1 1\n",
    "many_states.uai": b"MARKOV\n1\n65000\n0\n",
    "functions.uai": b"MARKOV\n1\n2\n1000000000\n1 0\n",
    "scope.uai": b"MARKOV\n2\n2 2\n1\n1000000000 0 1\n",
    "deep_scope.uai": b"MARKOV 31 "
    + b"9 " * 31
    + b"1 31 "
    + b" ".join(b"%d" % v for v in range(31)),
    "long_number.uai": b"MARKOV 1 2 1 1 0 2 0." + b"1" * 1_000_000 + b" 1",
    "long_word.uai": b"M" * 2_000_000,
    "comments.uai": b"c x\n" * 200_000,
    "states.bif": b"variable a { type discrete [ 999999999 ] { x }; }",
    "default.bif": b"".join(
        b"variable v%d { type discrete [4] { a b c d }; }" % v for v in range(20)
    )
    + b"".join(b"probability ( v%d ) { table 1 0 0 0; }" % v for v in range(19))
    + b"probability ( v19 | %s ) { default 1 0 0 0; }" % b", ".join(b"v%d" % v for v in range(19)),
    "braces.bif": b"{" * 500_000,
    "quotes.bif": b'"' * 500_000,
    "comments.bif": b"/*" * 500_000,
    "spaces.bif": b"network x {" + b" " * 1_000_000,
    "properties.bif": b"network x {" + b" property" * 200_000,
    "semicolons.bif": b"network x {" + b"; property a" * 200_000,
    "variables.bif": b"variable a { type discrete [ 2 ] { 0 1 }; } " * 20_000,
    "observations.evid": b"1000000000 0 1\n",
    "samples.evid": b"1000000000 " + b"0 " * 200_000,
    "zeros.uai.gz": gzip.compress(b"0" * 50_000_000),
    "cells.csv": b"x0" + b",x0" * 200_000 + b"\n",
    "quotes.csv": b'"x0' + b"\n" * 200_000,
}


def huge_claims() -> None:
    """Read files that claim, or are, too much: quickly, and without taking much memory."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in CLAIMS.items():
            path = Path(folder) / name
            path.write_bytes(content)
            read_one(path)
            path.unlink()


def every_truncation(suffix: str) -> None:
    """Read every beginning of the valid files, and every one of them compressed."""
    valid = {".uai": UAI, ".bif": BIF, ".evid": EVIDENCE}[suffix]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"cut{suffix}"
        for content in valid:
            for end in range(0, len(content), 1 if len(content) < 300 else 11):
                path.write_bytes(content[:end])
                read_one(path)
        path.unlink()
        path = Path(folder) / f"cut{suffix}.gz"
        packed = gzip.compress(valid[0], mtime=0)
        for end in range(len(packed)):
            path.write_bytes(packed[:end])
            assert refused_or(dai.read_evidence if suffix == ".evid" else dai.read, path) is None
