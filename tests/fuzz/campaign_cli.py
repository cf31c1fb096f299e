"""Random words in the place of every option and argument of every command.

Commands and options are those that the command line itself lists, so a new one is tried without
being named here. All others have values with which the command would work.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_type_hints
from unittest import mock

import numpy as np
import typer
from hypothesis import strategies as st

import deltaai as dai
from deltaai.cli.app import app
from deltaai.cli.entry import main
from fuzz.mutations import NASTY_WORDS
from fuzz.watching import describe, repeat, time_limit

EXIT_CODES = {0, 1, 2, 3, 130}
# Larger counts are work that was asked for, not a mistake.
_LARGEST_COUNT = 50

# Under pytest the type checker is faster than the check that users meet.
TYPE_CHECKS = ("deltaai.training.config.TrainingConfig.__init__() parameter ",)
_MODEL = dai.zoo.ising_lattice(side=2, sigma=0.2, seed=0)
_FILES = ("model.uai", "network.bif", "sampler.dai", "rows.evid", "folder", "nowhere/file", "m.txt")


@dataclass(frozen=True)
class Parameter:
    """An option or argument of a command: its name in the code, on the line, and its type."""

    name: str
    words: tuple[str, ...]
    kind: type
    is_required: bool

    @property
    def is_option(self) -> bool:
        """Whether it is named on the command line."""
        return self.words[0].startswith("-")


def _commands() -> dict[str, list[Parameter]]:
    """Take the commands apart; types are those of the functions behind them."""
    made: Any = typer.main.get_command(app)
    found = {}
    for information in app.registered_commands:
        assert information.callback is not None
        name = information.name or information.callback.__name__.replace("_", "-")
        types = get_type_hints(information.callback)
        found[name] = [
            Parameter(p.name, tuple(p.opts), _plain_type(types[p.name]), p.required)
            for p in made.commands[name].params
            if p.name in types  # --help is not
        ]
    return found


def _plain_type(hint: Any) -> type:
    """The type inside ``list[...] | None``."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return _plain_type(kinds[0]) if kinds else hint


COMMANDS = _commands()


def parameters() -> list[tuple[str, str]]:
    """Every command with every option and argument that takes a value."""
    return [
        (command, parameter.name)
        for command, found in COMMANDS.items()
        for parameter in found
        if parameter.kind is not bool
    ]


def run_cli(arguments: list[str], seconds: int = 30) -> tuple[int, str, str]:
    """Run the command in this process, with streams as strict as real ones."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = [
        io.TextIOWrapper(out, encoding="utf-8", errors="surrogateescape", write_through=True),
        io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace", write_through=True),
    ]
    code: object = 0
    with (
        mock.patch.object(sys, "argv", ["deltaai", *arguments]),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        time_limit(seconds),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        except Exception as error:
            raise AssertionError(f"deltaai {arguments}: {describe(error)}") from error
    assert isinstance(code, int)
    return code, *(stream.getvalue().decode("utf-8", "replace") for stream in (out, err))


def check_ending(arguments: list[str], code: int, err: str) -> None:
    """Check how a command ended: a known code, and one line if it refused."""
    told = f"deltaai {arguments} ended with {code}: {err[-2000:]}"
    assert code in EXIT_CODES, told
    assert "Traceback" not in err, told
    if "should not have happened" in err:  # what stands for a traceback
        assert any(fault in err for fault in TYPE_CHECKS), told
        return
    if code in {0, 1} or "─ Error ─" in err:  # typer's own, in a frame of several lines
        return
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, told
    # The name of a file with line breaks in it is printed as it is.
    if not any(len(f"{argument}.".splitlines()) > 1 for argument in arguments):
        assert err.rstrip("\n").splitlines()[-1] == lines[0], told
        assert len(lines[0]) < 3000 + max(map(len, arguments)), told


@contextlib.contextmanager
def workshop() -> Iterator[Path]:
    """A folder with one file of every kind, in which the commands run."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        dai.write(_MODEL, folder / "model.uai")
        dai.write(dai.zoo.sprinkler(), folder / "network.bif")
        (folder / "rows.evid").write_text("1 0 1\n")
        (folder / "m.txt").write_text("MARKOV\n")
        (folder / "folder").mkdir()
        (folder / "folder" / "content").write_text("something")
        (folder / "sampler.dai").write_bytes(_sampler())
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


@lru_cache
def _sampler() -> bytes:
    """The file of a sampler for the model, trained once."""
    sampler = dai.fit(_MODEL, steps=1, batch_size=8, evaluate_every=0, target_ess=None)
    with tempfile.TemporaryDirectory() as folder:
        sampler.save(Path(folder) / "sampler.dai")
        return (Path(folder) / "sampler.dai").read_bytes()


def _state_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _clean(folder: Path, kept: dict[Path, bytes]) -> None:
    """Put the folder back as it was."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and path not in kept:
            path.unlink()
        elif path.is_dir() and not any(path in known.parents for known in kept):
            shutil.rmtree(path)
    for path, content in kept.items():
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)


def valid_value(command: str, parameter: Parameter) -> str:
    """A value with which a command works, as far as a name and a type tell."""
    name = parameter.name
    if command == "sample" and name == "file":
        return "sampler.dai"
    known = {
        "file": "model.uai",
        "output": "out.csv" if command == "sample" else "out.dai",
        "out": "results",
        "steps": "1",
        "time_limit": "1",
        "number": "5",
        "name": "synthetic-gfn",
        "scale": "smoke",
        "evidence": "x0=1",
        "evidence_file": "rows.evid",
        "memory_limit": "1GB",
        "metrics": "log.csv",
    }
    by_type = {int: "1", float: "1", Path: "model.uai"}
    return known.get(name, by_type.get(parameter.kind, "x0"))


def command_line(command: str, fuzzed: str | None = None, value: str = "") -> list[str]:
    """Arguments of a command: what it needs, what keeps it short, and the fuzzed one."""
    line = [command]
    for parameter in COMMANDS[command]:
        is_short = parameter.name in {"steps", "time_limit", "number", "scale", "out", "name"}
        if parameter.name != fuzzed and not (parameter.is_required or is_short):
            continue
        word = value if parameter.name == fuzzed else valid_value(command, parameter)
        line += [parameter.words[0], word] if parameter.is_option else [word]
    return line


_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)


def values_of(parameter: Parameter) -> st.SearchStrategy[str]:
    """Words for an option: nasty ones, numbers at the limits, names of files that do not fit."""
    nasty = [word for word in NASTY_WORDS if "\x00" not in word]
    numbers = st.one_of(st.integers(-(2**70), 2**70).map(str), st.floats().map(repr))
    found = st.one_of(
        st.sampled_from(nasty),
        st.sampled_from(_FILES),
        st.sampled_from(("x0", "x0=1", "x0=", "=1", "x0=2", "x0=1,x0=0", "x0=1,", ",", "one,two")),
        st.sampled_from(("exact", "sampler", "auto", "one", "many", "any", "tb", "smoke")),
        st.sampled_from(
            ("steps=-1", "batch_size=nan", "seed=1.5", "policy=x", "learning_rate=1e309")
        ),
        st.sampled_from(("\udcff.uai", "out.csv", "out.npz", "out.jsonl", "out.uai", "a" * 300)),
        _text,
        numbers,
    )
    if parameter.kind is int and parameter.name != "seed":
        found = found.filter(_is_little_work)
    if parameter.kind is Path:
        found = found.map(_within)
    return found


def _is_little_work(value: str) -> bool:
    try:
        return not float(value) > _LARGEST_COUNT  # typer takes 1000.0 for a whole number
    except ValueError:
        return True


def _within(value: str) -> str:
    """A path that does not leave the folder, whatever it was."""
    return value.replace("..", ".").lstrip("/")


def check_files(folder: Path, kept: dict[Path, bytes], told: str) -> None:
    """Check that what a command wrote is complete, and that nothing else is left."""
    for path in folder.rglob("*"):
        if path in kept or not path.is_file():
            continue
        assert not path.name.endswith(".tmp"), f"{path.name} was left by {told}"
        content = path.read_bytes()
        if content.startswith(b"PK"):
            with np.load(path) as arrays:
                assert len(arrays["states"]) == len(arrays["log_q"])
        elif b'"deltaai"' in content[:100_000] and b"sha256" in content[:100_000]:
            # The library below cannot open a file whose name is not UTF-8.
            if not path.name.endswith(".checkpoint") and "\udcff" not in path.name:
                # `learn` writes models, and no other command does.
                (dai.read if "learn" in told else dai.load)(path)
        elif path.suffix == ".jsonl":
            assert all(isinstance(json.loads(line), dict) for line in content.splitlines())
        elif path.suffix == ".csv":
            rows = list(csv.reader(io.StringIO(content.decode())))
            assert len({len(row) for row in rows}) <= 1, told


def random_words(command: str, name: str, max_examples: int) -> None:
    """Give random words to one option of a command."""
    parameter = next(p for p in COMMANDS[command] if p.name == name)
    with (
        workshop() as folder,
        # What `reproduce` would run takes minutes; what it checks and writes is tried.
        mock.patch("deltaai.experiments.harness.reproduce.run_parts", return_value=None),
    ):
        kept = _state_of(folder)

        def attempt(value: str) -> None:
            arguments = command_line(command, name, value)
            try:
                code, _, err = run_cli(arguments)
                check_ending(arguments, code, err)
                check_files(folder, kept, f"deltaai {arguments}")
            finally:
                _clean(folder, kept)

        repeat(values_of(parameter), max_examples, attempt)


def random_lines(max_examples: int) -> None:
    """Give a command words in no order at all, with options that it has or has not."""
    options = sorted({word for found in COMMANDS.values() for p in found for word in p.words})
    flags = [word for word in options if word.startswith("-") and word != "--method"]
    word = st.one_of(
        st.sampled_from([*flags, "--list", "--json", "--csv", "--no-such-option", "-x", "--"]),
        st.sampled_from(["model.uai", "network.bif", "sampler.dai", "folder", "1", "-1", "x0=1"]),
        _text.map(_within),
    )
    names = [name for name in COMMANDS if name not in {"demo", "fit", "bench"}]
    with (
        workshop() as folder,
        mock.patch("deltaai.experiments.harness.reproduce.run_parts", return_value=None),
    ):
        kept = _state_of(folder)

        def attempt(line: tuple[str, list[str]]) -> None:
            arguments = [line[0], *line[1]]
            try:
                code, _, err = run_cli(arguments)
                check_ending(arguments, code, err)
                check_files(folder, kept, f"deltaai {arguments}")
            finally:
                _clean(folder, kept)

        lines = st.tuples(st.sampled_from(names), st.lists(word, max_size=5))
        repeat(lines, max_examples, attempt)
