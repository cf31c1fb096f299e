"""Limits of memory and time, by measured peak and clock, for commands and calls."""

import csv
import importlib
import json
import subprocess
import time
from io import BytesIO

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.answering.questions import TableChoices, resolve
from deltaai.answering.streamed_samples import sample_stream
from deltaai.answering.table_stream import query_stream
from deltaai.budget import Budget, _cgroup_available
from deltaai.cli.sampling import run_sample
from deltaai.errors import FormatError, NotAffordableError, TimeLimitError
from deltaai.exact import ExactInference
from deltaai.io import case_stream, write
from deltaai.io.case_stream import CaseStream
from deltaai.messages import mini_bucket_bound
from deltaai.progress import Reports
from measured_run import measured

MB = 10**6
LATTICE = dai.zoo.ising_lattice(side=3, sigma=0.3, seed=0)
MANY = ("--num-samples", "60000")
NAMES = [variable.name for variable in LATTICE.variables]


@pytest.fixture(scope="module")
def sampler():
    return dai.fit(LATTICE, steps=60, seed=0)


@pytest.fixture
def folder(tmp_path):
    write(dai.zoo.sprinkler(), tmp_path / "sprinkler.bif")
    write(dai.zoo.ising_lattice(side=6, sigma=0.3, seed=0), tmp_path / "small.uai")
    write(dai.zoo.ising_lattice(side=16, sigma=0.3, seed=0), tmp_path / "wide.uai")
    return tmp_path


def write_cases(path, count):
    with path.open("w") as stream:
        stream.write("rain,wet_grass\n")
        for _ in range(count // 4):
            stream.write("yes,\n,yes\nno,yes\n,\n")


def endless(first_line, line):
    """A pipe that never ends."""
    return subprocess.Popen(
        ["sh", "-c", f"echo {first_line}; exec yes {line}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


# -- measured ----------------------------------------------------------------------------------


def test_a_long_table_takes_little_memory(folder):
    write_cases(folder / "cases.csv", 40_000)
    arguments = ("query", "sprinkler.bif", "--evidence-file", "cases.csv", "-o", "out.csv")
    found = measured(folder, *arguments, "--memory-limit", "20MB")
    assert found.code == 0, found.err
    assert found.is_within_memory(20 * MB)
    with (folder / "out.csv").open() as stream:
        assert sum(1 for _ in csv.reader(stream)) == 40_001


def test_endless_standard_input_takes_little_memory_and_ends_in_time(folder):
    pipe = endless("rain,wet_grass", "yes,")
    limits = ("--memory-limit", "20MB", "--time-limit", "2")
    arguments = ("query", "sprinkler.bif", "--evidence-file", "-", "-o", "out.csv", *limits)
    found = measured(folder, *arguments, stdin=pipe.stdout)
    pipe.kill()
    pipe.wait()
    assert found.code == 3
    assert "the time limit of 2 s ended before row" in found.err
    assert found.is_within_memory(20 * MB)
    assert found.is_within_time(2)
    with (folder / "out.csv").open() as stream:  # what was answered is there
        assert sum(1 for _ in csv.DictReader(stream)) > 1000


def test_very_many_samples_end_at_the_limit(folder):
    limits = ("--time-limit", "5", "--memory-limit", "400MB")
    arguments = ("query", "wide.uai", "--method", "sampler", "--num-samples", "60000", "--json")
    found = measured(folder, *arguments, *limits)
    assert found.code == 0, found.err
    assert found.is_within_time(5)
    assert found.is_within_memory(400 * MB)
    assert "of 60000 samples were drawn within the time limit" in found.err


@pytest.mark.slow
@pytest.mark.parametrize("limit", [4, 15])
@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "wide.uai", "--method", "sampler"),
        ("query", "wide.uai", "--method", "sampler", "-e", "x0=1,x200=0"),
        ("query", "wide.uai", "--method", "sampler", "--num-samples", "100000"),
        ("query", "small.uai"),
        ("query", "small.uai", "--method", "bp"),
        ("query", "small.uai", "--method", "sampler", "--evidence-file", "cases.csv"),
        ("query", "small.uai", "--evidence-file", "cases.csv", "-o", "out.csv"),
        ("fit", "wide.uai", "-o", "out.dai"),
        ("fit", "small.uai", "-o", "out.dai", "--evidence", "any"),
        ("sample", "small.uai", "-n", "9999999999", "-o", "out.csv"),
        ("sample", "small.uai", "-n", "9999999999", "-o", "out.json"),
        ("plan", "wide.uai"),
    ],
    ids=" ".join,
)
def test_limits_of_time(folder, arguments, limit):
    (folder / "cases.csv").write_text("x0,x7\n" + "1,\n,0\n" * 3000)
    found = measured(folder, *arguments, "--time-limit", limit)
    assert found.code in {0, 3}, found.err
    assert found.is_within_time(limit)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        (("query", "wide.uai"), 60),
        (("query", "wide.uai", "--method", "sampler", "--time-limit", "20"), 400),
        (("query", "wide.uai", "--method", "sampler", *MANY, "--time-limit", "20"), 400),
        (("query", "wide.uai", "--method", "sampler", "-e", "x0=1", "--time-limit", "20"), 400),
        (("query", "small.uai"), 20),
        (("query", "small.uai", "--evidence-file", "cases.csv", "--csv"), 20),
        (("query", "small.uai", "--evidence-file", "cases.csv", "--json"), 50),
        (("query", "sprinkler.bif", "--evidence-file", "long.csv", "-o", "out.json"), 50),
        (("query", "sprinkler.bif", "--evidence-file", "long.csv", "-o", "out.csv"), 50),
        (("sample", "small.uai", "-n", "300000", "-o", "out.csv"), 30),
        (("sample", "small.uai", "-n", "300000", "-o", "out.json"), 30),
        (("sample", "small.uai", "-n", "300000", "-o", "out.npz"), 160),
        (("check", "wide.uai"), 30),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_limits_of_memory(folder, arguments, limit):
    (folder / "cases.csv").write_text("x0,x7\n" + "1,\n,0\n" * 20_000)
    write_cases(folder / "long.csv", 600_000)
    found = measured(folder, *arguments, "--memory-limit", f"{limit}000000")
    assert found.code in {0, 3}, found.err
    assert found.is_within_memory(limit * MB)


# -- refused before, and what is said ----------------------------------------------------------


def test_samples_that_memory_forbids_are_refused_at_once(sampler):
    start = time.process_time()
    with pytest.raises(NotAffordableError, match="999999999 samples need about"):
        dai.query(sampler, num_samples=999_999_999, time_limit=4, memory_limit=10**9)
    with pytest.raises(NotAffordableError, match="ask for fewer"):
        sampler.posterior({NAMES[0]: 1}, 10**7, budget=Budget(10**8))
    with pytest.raises(NotAffordableError, match="999999999 samples need about"):
        dai.query(LATTICE, method="sampler", num_samples=999_999_999, memory_limit=10**9)
    assert time.process_time() - start < 2


def test_samples_are_drawn_until_the_time_is_over(sampler):
    found = dai.query(sampler, num_samples=20_000_000, time_limit=1, memory_limit=10**11)
    assert found.seconds < 3
    assert 0 < found.partition.num_samples < 20_000_000
    assert "samples were drawn within the time limit" in found.notes[0]


def test_a_check_without_time_is_not_made(sampler):
    budget = Budget(10**9, 1.0, time.perf_counter())  # over already
    found = sampler.answer(num_samples=100_000, budget=budget)
    assert found.status in {"unchecked", "untrusted"}
    assert found.partition.num_samples < 100_000


def test_exact_work_stops_at_the_limit():
    model = dai.zoo.ising_lattice(side=12, sigma=0.3, seed=0)
    late = Budget(1, 0.5, time.perf_counter()).watching("log Z")
    engine = ExactInference(model, progress=late)
    with pytest.raises(TimeLimitError, match=r"the time limit of 0\.5 s ended before log Z"):
        engine.log_partition()


def test_the_bound_found_so_far_is_kept():
    model = dai.zoo.ising_lattice(side=6, sigma=0.5, seed=0)
    late = Budget(1, 1, time.perf_counter()).watching("the bound")
    found = mini_bucket_bound(model, i_bound=3, progress=late)
    assert found.upper >= mini_bucket_bound(model, i_bound=3).upper


def test_training_counts_from_the_call(monkeypatch):
    def slow(*_, **__):
        time.sleep(1.0)
        return original(*_, **__)

    module = importlib.import_module("deltaai.fitting.fit_model")
    original = module.suitable_graph
    monkeypatch.setattr(module, "suitable_graph", slow)
    sampler = module.fit(LATTICE, time_limit=2.0, steps=100_000, target_ess=None)
    assert sampler.history[-1]["seconds"] < 2.9  # 3, if what comes before were not counted


# -- tables ------------------------------------------------------------------------------------


def stream_of(text, model):
    return CaseStream.passing("standard input", BytesIO(text.encode()), model)


def answered(source, text, budget, table, **choices):
    cases = stream_of(text, LATTICE)
    question = resolve(source, cases, budget=budget, table=table, **choices)
    return list(query_stream(question, Reports()))


@pytest.mark.parametrize("is_sampled", [False, True])
def test_blocks_answer_as_one_table_does(sampler, is_sampled):
    source = sampler if is_sampled else LATTICE
    text = f"{NAMES[0]},{NAMES[4]}\n" + "1,\n,0\n,\n" * 4
    cases = [{NAMES[0]: 1}, {NAMES[4]: 0}, {}] * 4
    whole = dai.query_table(source, cases, num_samples=1000, check_rows=1)
    budget = Budget(2 * 10**8 if is_sampled else 200_000)
    found = answered(source, text, budget, TableChoices(check_rows=1), num_samples=1000)
    assert sum(map(len, found)) == 12
    assert is_sampled or len(found) > 1
    joined = np.concatenate([answer.probabilities for answer in found])
    assert np.abs(joined - whole.probabilities).max() < (0.08 if is_sampled else 1e-12)


def test_a_pipe_is_put_on_the_disk_if_rows_must_be_seen_first(monkeypatch):
    text = ",".join(NAMES[:6]) + "\n" + "1,0,1,0,1,0\n" * 3
    # Only with what is always observed taken out does it fit.
    budget = Budget(40_000)
    with pytest.raises(NotAffordableError):
        dai.query_table(LATTICE, [{}], method="exact", memory_limit=1500)
    found = answered(LATTICE, text, budget, TableChoices(), method="exact")
    assert [status for answer in found for status in answer.status] == ["exact"] * 3
    monkeypatch.setattr(case_stream, "MOST_SPOOLED", 30)
    with pytest.raises(FormatError, match="give the name of a file"):
        stream_of(text, LATTICE).repeatable(Budget(1))


def test_a_line_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(case_stream, "LONGEST_LINE", 100)
    cases = stream_of(f"{NAMES[0]}\n1\n" + "1" * 500, LATTICE)
    with pytest.raises(FormatError, match="standard input, line 3: the line is longer than"):
        list(cases.blocks(10))


def test_lines_are_read_as_files_are():
    cases = CaseStream.passing(
        "in", BytesIO(b"\xef\xbb\xbf" + NAMES[0].encode() + b"\r\n1\r0\n"), LATTICE
    )
    assert torch.cat(list(cases.blocks(1)))[:, 0].tolist() == [1, 0]
    bad = CaseStream.passing("in", BytesIO(NAMES[0].encode() + b"\n1\n\xff\n"), LATTICE)
    with pytest.raises(FormatError, match="in, line 3: byte 0xff is not text"):
        list(bad.blocks(10))


def test_answers_that_do_not_fit_are_refused_before(sampler):
    rows = torch.full((1000, LATTICE.num_variables), -1)
    with pytest.raises(NotAffordableError, match="answers to 1000 rows need about"):
        dai.query_table(LATTICE, rows, memory_limit=100_000)
    with pytest.raises(NotAffordableError, match="answers to 1000 rows need about"):
        dai.query_table(sampler, rows, samples=1000, memory_limit=10**7)


def test_rows_that_are_not_reached_say_so(sampler):
    rows = torch.full((20_000, LATTICE.num_variables), -1)
    found = dai.query_table(sampler, rows, time_limit=1.0, check_rows=3)
    assert found.seconds < 3
    assert found.status[-1] == "untrusted"
    assert "the time limit ended" in found.doubts[-1]
    assert "the time limit ended" not in found.doubts[0]
    assert np.isfinite(found.log_partition[0])
    assert np.isnan(found.log_partition[-1])


# -- samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", [{}, {NAMES[0]: 1}])
@pytest.mark.parametrize("is_sampled", [False, True])
def test_samples_come_in_blocks(sampler, evidence, is_sampled):
    source = sampler if is_sampled else LATTICE
    generator = torch.Generator().manual_seed(0)
    memory = 2 * 10**7 if is_sampled and evidence else 10**6
    stream = sample_stream(source, 3000, generator, evidence=evidence, budget=Budget(memory))
    blocks = [states for states, _ in stream]
    assert sum(map(len, blocks)) == 3000
    assert len(blocks) > 1
    truth = dai.exact(LATTICE, evidence=evidence).marginals()[NAMES[4]][1]
    assert torch.cat(blocks)[:, 4].double().mean() == pytest.approx(truth, abs=0.06)


def test_samples_as_text_have_all_rows_and_labels(folder):
    for form in ("csv", "json", "npz"):
        run_sample(
            dai.read(folder / "sprinkler.bif"),
            {"rain": "yes"},
            9000,
            seed=0,
            budget=Budget(10**8),
            output=folder / f"out.{form}",
            is_json=False,
            is_csv=False,
        )
    rows = json.loads((folder / "out.json").read_text())
    with (folder / "out.csv").open() as stream:
        assert list(csv.DictReader(stream)) == rows
    assert len(rows) == len(np.load(folder / "out.npz")["states"]) == 9000
    assert {row["rain"] for row in rows} == {"yes"}
    assert set(rows[0]) == {"cloudy", "sprinkler", "rain", "wet_grass"}


# -- what the system has -----------------------------------------------------------------------


def write_group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("__", ".")).write_text(str(value))


def test_free_memory_is_that_of_the_narrowest_control_group(tmp_path):
    own = tmp_path / "cgroup"
    write_group(tmp_path / "two", memory__max="max", memory__current=5)
    write_group(tmp_path / "two/job", memory__max=1000, memory__current=300)
    (tmp_path / "two/job/memory.stat").write_text("anon 100\ninactive_file 200\n")
    write_group(tmp_path / "two/job/step", memory__max=5000, memory__current=300)
    own.write_text("0::/job/step\n")
    assert _cgroup_available(tmp_path / "two", own) == 900
    old = tmp_path / "one/memory/slurm"
    write_group(old, memory__limit_in_bytes=700, memory__usage_in_bytes=100)
    own.write_text("5:cpu:/slurm\n4:memory:/slurm\n0::/\n")
    assert _cgroup_available(tmp_path / "one", own) == 600
    own.unlink()
    assert _cgroup_available(tmp_path / "none", own) is None


def write_data(path, count, lines=("no,no", "yes,yes", "?,yes", "no,?")):
    path.write_text("rain,wet_grass\n" + "".join(f"{line}\n" for line in lines) * (count // 4))


@pytest.mark.parametrize(("limit", "code"), [pytest.param(40, 0, marks=pytest.mark.slow), (30, 3)])
def test_learning_keeps_its_memory(tmp_path, limit, code):
    write_data(tmp_path / "d.csv", 800_000)
    words = ("learn", tmp_path / "d.csv", "-o", tmp_path / "m.bif", "-q")
    found = measured(tmp_path, *words, "--memory-limit", f"{limit}MB")
    assert (found.code, found.bytes < 1.1 * limit * MB) == (code, True), found
    assert ("memory limit" in found.err) == bool(code)


@pytest.mark.parametrize(
    "structure", [pytest.param("chow-liu", marks=pytest.mark.slow), "grid 4x4"]
)
def test_learning_ends_in_time_with_what_it_found(tmp_path, structure):
    rng = np.random.default_rng(0)
    states = rng.integers(0, 2, (4000, 16)).astype(str)
    states[rng.random(states.shape) < 0.5] = "?"
    lines = [",".join(f"x{k}" for k in range(16)), *(",".join(row) for row in states.tolist())]
    (tmp_path / "d.csv").write_text("\n".join(lines))
    words = ("learn", tmp_path / "d.csv", "-o", tmp_path / "m.uai", "--structure", structure)
    found = measured(tmp_path, *words, "--time-limit", "2", "--steps", "100000", "-q")
    assert found.is_within_time(2), found
    assert found.code in {0, 3}
    assert (tmp_path / "m.uai").exists() == (found.code == 0)
