"""The log of a run: whole lines at any moment, and none twice after a resumed run."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import config as jaxtyping_config

from deltaai.errors import DeltaAIError, FormatError
from deltaai.training.metrics_log import MetricsLog

ROWS = [
    {"step": 0, "loss": 0.1},
    {"step": 10, "loss": 1 / 3, "khat": -math.inf, "ess": 0.5},
    {"step": 20, "loss": 1e-300, "khat": math.inf, "ess": 1.0},
    {"step": 30, "loss": 2.0, "khat": 0.25, "ess": 1.0, "note": 'a "word", or two', "done": True},
]
BOTH = pytest.mark.parametrize("name", ["run.jsonl", "run.csv"])


def write_log(path: Path, rows: list[dict], resume_from_step: int | None = None) -> MetricsLog:
    with MetricsLog(path, resume_from_step) as log:
        for row in rows:
            log.append(row)
    return log


def test_without_a_file_rows_stay_in_memory(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = write_log(None, ROWS)
    assert log.rows == ROWS
    assert os.listdir(tmp_path) == []


def test_rows_are_copies() -> None:
    row = {"step": 1}
    log = write_log(None, [row])
    row["step"] = 2
    assert log.rows == [{"step": 1}]


def test_json_lines_are_json(tmp_path: Path) -> None:
    write_log(tmp_path / "run.jsonl", ROWS)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    assert rows[0] == ROWS[0]
    assert rows[1] == ROWS[1] | {"khat": "-Infinity"}
    assert rows[3] == ROWS[3]


def test_csv_has_one_header_for_all_columns(tmp_path: Path) -> None:
    write_log(tmp_path / "run.csv", ROWS)
    with (tmp_path / "run.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["step", "loss", "khat", "ess", "note", "done"]
    assert rows[0] == dict(zip(rows[0], ["0", "0.1", "", "", "", ""], strict=True))
    assert float(rows[1]["khat"]) == -math.inf
    assert float(rows[1]["loss"]) == 1 / 3
    assert rows[3]["note"] == ROWS[3]["note"]


@BOTH
def test_every_row_is_in_the_file_at_once(tmp_path: Path, name: str) -> None:
    log = MetricsLog(tmp_path / name)
    for count, row in enumerate(ROWS, start=1):
        log.append(row)
        lines = (tmp_path / name).read_text().splitlines()
        assert len(lines) == count + name.endswith("csv")
    log.close()
    assert os.listdir(tmp_path) == [name]


@BOTH
def test_a_new_run_begins_a_new_log(tmp_path: Path, name: str) -> None:
    write_log(tmp_path / name, ROWS)
    write_log(tmp_path / name, ROWS[:1])
    assert write_log(tmp_path / name, [], resume_from_step=99).rows == ROWS[:1]


@BOTH
def test_rows_come_back(tmp_path: Path, name: str) -> None:
    write_log(tmp_path / name, ROWS)
    before = (tmp_path / name).read_bytes()
    assert write_log(tmp_path / name, [], resume_from_step=30).rows == ROWS
    assert (tmp_path / name).read_bytes() == before


@BOTH
@pytest.mark.parametrize("last_step", [-1, 0, 10, 15, 20, 30, 99])
@pytest.mark.parametrize("num_cut", [0, 1, 5])
def test_a_resumed_log_equals_an_uninterrupted_one(
    tmp_path: Path, name: str, last_step: int, num_cut: int
) -> None:
    path = tmp_path / name
    write_log(path, ROWS)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - num_cut])  # killed in the last line
    kept = [row for row in ROWS if row["step"] <= last_step]
    if num_cut and last_step >= 30:
        kept = kept[:-1]
    log = write_log(path, ROWS[len(kept) :], resume_from_step=last_step)
    assert log.rows == ROWS
    assert path.read_bytes() == whole
    assert os.listdir(tmp_path) == [name]


@BOTH
def test_half_a_letter_at_the_end(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_log(path, ROWS[:1])
    whole = path.read_bytes()
    path.write_bytes(whole + "größer".encode()[:3])
    assert write_log(path, [], resume_from_step=0).rows == ROWS[:1]
    assert path.read_bytes() == whole


@BOTH
@pytest.mark.parametrize("content", [None, b"", b"half a li"])
def test_resuming_without_a_log(tmp_path: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    write_log(tmp_path / name, ROWS[2:], resume_from_step=10)
    assert write_log(tmp_path / name, [], resume_from_step=99).rows == ROWS[2:]


def test_csv_goes_on_after_rows_of_no_step(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    write_log(path, ROWS[1:])
    write_log(path, ROWS[1:], resume_from_step=0)  # only the header was kept
    assert write_log(path, [], resume_from_step=99).rows == ROWS[1:]


def test_nan_and_numbers_of_numpy(tmp_path: Path) -> None:
    for name in ("run.jsonl", "run.csv"):
        write_log(tmp_path / name, [{"step": 1, "loss": math.nan, "elbo": np.float64(0.5)}])
        row = write_log(tmp_path / name, [], resume_from_step=1).rows[0]
        assert math.isnan(row["loss"])
        assert row["elbo"] == 0.5


def test_texts_that_look_like_numbers_are_left_alone(tmp_path: Path) -> None:
    rows = [{"step": 1, "id": "007", "name": "1_000"}]
    write_log(tmp_path / "run.csv", rows)
    assert write_log(tmp_path / "run.csv", [], resume_from_step=1).rows == rows


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run", "run.txt", "run.json"])
def test_the_name_says_the_format(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match=r"expected \.jsonl or \.csv"):
        MetricsLog(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("run.jsonl", '{"step": 1}\nhello\n{"step": 2}\n', 2),
        ("run.jsonl", "[1]\n", 1),
        ("run.jsonl", '{"loss": 1}\n', 1),
        ("run.jsonl", '{"step": true}\n', 1),
        ("run.jsonl", '{"step": 1, "losses": [1]}\n', 1),
        ("run.csv", "step,loss\n1,2\n1,2,3\n", 3),
        ("run.csv", "name,age\nAda,36\n", 2),
        ("run.csv", "step,loss\n\n", 2),
        ("run.csv", 'step,loss\n1,"2\n', 2),
    ],
)
def test_a_file_that_is_no_log_is_not_continued(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FormatError, match="not a row of metrics") as caught:
        MetricsLog(tmp_path / name, 5)
    assert caught.value.line == line
    assert (tmp_path / name).read_text() == text


@pytest.fixture
def _as_a_user_runs_it() -> Iterator[None]:
    """Switch the tests' own type checks off: users do not have them, and must see our errors."""
    before = jaxtyping_config.jaxtyping_disable
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", before)


@pytest.mark.usefixtures("_as_a_user_runs_it")
@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"loss": 1.0}, "names its step"),
        ({"step": 1.0}, "names its step"),
        ({"step": 1, "loss": torch.tensor(1.0)}, r"'loss' is tensor\(1\.\).*\.item"),
        ({"step": 1, "note": "two\nlines"}, "fit in one line"),
        ({"step": 1, "two\nlines": 1}, "fit in one line"),
    ],
)
def test_rows_that_cannot_be_logged(tmp_path: Path, row: dict, problem: str) -> None:
    with MetricsLog(tmp_path / "run.csv") as log, pytest.raises(DeltaAIError, match=problem):
        log.append(row)
    assert log.rows == []
    assert (tmp_path / "run.csv").read_text() == ""


def test_a_closed_log_takes_no_more(tmp_path: Path) -> None:
    log = write_log(tmp_path / "run.csv", ROWS)
    with pytest.raises(DeltaAIError, match="is closed"):
        log.append({"step": 40})
    assert log.rows == ROWS


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DeltaAIError, match="cannot write"):
        MetricsLog(tmp_path / "missing" / "run.csv")
