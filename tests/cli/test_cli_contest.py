"""``deltaai bench uai`` as a user meets it: answers, scores, limits, resuming, bad folders."""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from deltaai.cli.reproduce import EXIT_PART_FAILED
from deltaai.errors import DeltaAIError
from deltaai.exact import exact
from deltaai.experiments import Rules, run_contest
from deltaai.experiments.contest import contest as contest_module
from deltaai.experiments.contest.problems import problems_in
from deltaai.experiments.contest.results import Result, read_result, write_result
from deltaai.experiments.contest.scores import hellinger, score_of, trivial_log_partition
from deltaai.experiments.contest.summary import Judged, judged
from deltaai.io import log10_partition_text, marginals_text, read, write
from deltaai.models import FactorGraph, TableFactor, Variable, zoo


def put(folder, name, model, evidence=None, *, has_solution=True):
    """Write a problem with its solution, which enumeration could check: the model is small."""
    path = folder / f"{name}.uai"
    write(model, path)
    model = read(path)  # names are lost
    observed = evidence or {}
    listed = " ".join(f"{v} {k}" for v, k in observed.items())
    (folder / f"{name}.uai.evid").write_text(f"{len(observed)} {listed}\n")
    if has_solution:
        answer = exact(model, evidence={f"x{v}": k for v, k in observed.items()})
        log10 = answer.log_partition() / math.log(10)
        (folder / f"{name}.uai.PR").write_text(log10_partition_text(float(log10)))
        rows = [np.asarray(answer.marginals()[variable.name]) for variable in model.variables]
        (folder / f"{name}.uai.MAR").write_text(marginals_text(rows))


@pytest.fixture
def problems(tmp_path):
    folder = tmp_path / "problems"
    folder.mkdir()
    put(folder, "sprinkler", zoo.sprinkler(), {3: 1})
    put(folder, "lattice", zoo.ising_lattice(side=3, sigma=0.5, seed=0))
    put(folder, "unknown", zoo.ising_lattice(side=2, sigma=0.5, seed=1), has_solution=False)
    return folder


def test_answers_scores_and_files(run, problems, tmp_path):
    out = tmp_path / "out"
    code, text, err = run("bench", "uai", problems, "-o", out, "--seconds", 60)
    assert code == 0
    assert "3 problems run, 0 already there" in text
    assert "of their claims 2 hold and 0 are wrong" in text
    assert "PR: 100.00 points, the mean of 2 problems." in text
    assert len(err.splitlines()) == 3
    rows = list(csv.DictReader((out / "uai.csv").open()))
    assert [row["problem"] for row in rows] == ["lattice", "sprinkler", "unknown"]
    assert [row["claim"] for row in rows] == ["holds", "holds", "unknown"]
    assert [row["score_pr"] for row in rows] == ["100.0", "100.0", ""]
    assert float(rows[1]["largest_marginal_error"]) < 1e-9
    assert rows[1]["observed"] == "1"
    assert (out / "uai.md").read_text() in text
    solution = (problems / "sprinkler.uai.PR").read_text().split()[1]
    assert float((out / "answers/sprinkler.PR").read_text().split()[1]) == pytest.approx(
        float(solution), abs=1e-12
    )
    # The same again: what is there is kept; another rule means another answer.
    code, _, err = run("bench", "uai", problems, "-o", out, "--seconds", 60)
    assert code == 2
    assert "--resume" in err
    code, text, _ = run("bench", "uai", problems, "-o", out, "--seconds", 60, "--resume", "--json")
    assert code == 0
    assert [row["claim"] for row in json.loads(text)] == ["holds", "holds", "unknown"]
    (out / "answers/lattice.json").write_text("{}")
    (problems / "unknown.uai.PR").write_text("PR\n100\n")  # a solution that comes later
    code, text, _ = run("bench", "uai", problems, "-o", out, "--seconds", 60, "--resume")
    assert code == 0
    assert "1 problem run, 2 already there" in text
    assert "2 hold and 1 are wrong" in text
    names = ("--only-problems", "sprinkler")
    code, text, _ = run("bench", "uai", problems, "-o", out, "--resume", "--csv", *names)
    assert code == 0
    assert len(text.splitlines()) == 2


def test_the_default_folder_is_beside_where_one_stands(run, problems, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text, _ = run("bench", "uai", "problems", "--only-problems", "sprinkler", "-q")
    assert code == 0
    assert "wrote bench-problems/uai.csv" in text


def test_bad_requests(run, problems, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("keep me")
    file = tmp_path / "file"
    file.write_text("x")
    for arguments, message in (
        ((tmp_path / "none",), "there is no folder"),
        ((file,), "there is no folder"),
        ((empty,), "holds no .uai file"),
        ((problems, "--only-problems", "sprinkle"), "did you mean 'sprinkler'?"),
        ((problems, "--seconds", 0), "--seconds is 0.0; it must be a finite number above 0"),
        ((problems, "--seconds", "nan"), "--seconds is nan"),
        ((problems, "--memory", "much"), "not an amount of memory"),
        ((problems, "--method", "magic"), "--method is 'magic'"),
        ((problems, "--seed", -1), "--seed is -1"),
        ((problems, "-o", other), "not empty"),
        ((problems, "-o", other, "--resume"), "holds no answers"),
        ((problems, "-o", file), "cannot use"),
        ((problems, "--json", "--csv"), "choose one"),
        ((), "DIR"),
    ):
        code, text, err = run("bench", "uai", *arguments)
        assert (code, text) == (2, ""), arguments
        assert message in err
        assert err.count("\n") == 1
    assert [path.name for path in other.iterdir()] == ["letter.txt"]


def test_problems_that_cannot_be_answered(run, problems, tmp_path):
    put(problems, "zero", FactorGraph([Variable("a", 2)], [TableFactor(["a"], [0.0, 0.0])]))
    (problems / "zero.uai").write_text("MARKOV\n1\n2\n1\n1 0\n2\n 0 0\n")
    (problems / "broken.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n 1 nan 1 1\n")
    (problems / "cut.uai").write_text("MARKOV\n2\n2 2\n1\n2 0")
    put(problems, "odd", zoo.ising_lattice(side=2, sigma=0.5, seed=1))
    (problems / "odd.uai.evid").write_text("1 77 0\n")
    put(problems, "strange", zoo.ising_lattice(side=2, sigma=0.5, seed=1))
    (problems / "strange.uai.MAR").write_text("MAR\n1 2 0.5 0.5\n")
    put(problems, "none", FactorGraph([Variable("a", 2), Variable("b", 3)], []))
    out = tmp_path / "out"
    code, text, err = run("bench", "uai", problems, "-o", out, "--seconds", 60)
    assert code == 0
    assert "Traceback" not in text + err
    rows = {row["problem"]: row for row in csv.DictReader((out / "uai.csv").open())}
    for name, words in (
        ("broken", "nan"),
        ("cut", "only 1 words follow"),
        ("odd", "77"),
        ("strange", "another model"),
    ):
        assert words in rows[name]["reason"], rows[name]["reason"]
    assert rows["strange"]["status"] == "exact"  # answered, though its solution cannot be read
    assert rows["none"]["claim"] == "holds"
    assert rows["zero"]["reason"] or rows["zero"]["log10_z"] == "-inf"


def test_limits_of_time_and_memory(run, tmp_path):
    folder = tmp_path / "wide"
    folder.mkdir()
    write(zoo.ising_lattice(side=24, sigma=1.0, seed=0), folder / "wide.uai")
    code, text, _ = run("bench", "uai", folder, "-o", tmp_path / "a", "--memory", "1MB")
    assert code == 0
    assert "0 answered, 1 not" in text
    limits = ("--method", "exact", "--memory", "200MB")
    code, text, _ = run("bench", "uai", folder, "-o", tmp_path / "b", *limits)
    assert code == 0
    assert "0 answered, 1 not" in text


def test_a_late_answer_has_no_points(problems, tmp_path):
    problem = next(one for one in problems_in(problems) if one.name == "sprinkler")
    rules = Rules(seconds=1, memory="1GB")
    (tmp_path / "answers").mkdir()
    done = {"status": "exact", "partition_status": "exact", "log10_partition": 0.0}
    marginals = problems / "sprinkler.uai.MAR"
    in_time = judged(problem, Result("sprinkler", rules, seconds=0.9, **done), marginals)
    assert in_time.marginal_score == 100
    assert in_time.claim == "wrong"  # log Z is
    late = judged(problem, Result("sprinkler", rules, seconds=1.1, **done), marginals)
    assert (late.marginal_score, late.partition_score, late.claim) == (0, 0, "none")
    assert "too late" in late.reason
    large = judged(problem, Result("sprinkler", rules, memory=2**31, **done), marginals)
    assert (large.marginal_score, large.claim) == (0, "none")
    assert "too much" in large.reason


def test_claims():
    rules = Rules()
    for statuses, errors, claim in (
        (("exact", "exact"), (0.0, 0.0), "holds"),
        (("estimated", "estimated"), (0.04, 0.019), "holds"),
        (("estimated", "estimated"), (0.06, 0.0), "wrong"),
        (("estimated", "estimated"), (0.0, 0.03), "wrong"),
        (("untrusted", "untrusted"), (5.0, 0.5), "none"),
        (("untrusted", "estimated"), (5.0, 0.0), "wrong"),
        (("untrusted", "estimated"), (0.0, 0.5), "holds"),
        (("exact", "exact"), (None, None), "unknown"),
    ):
        result = Result("a", rules, status=statuses[0], partition_status=statuses[1])
        one = Judged(result, log10_error=errors[0], marginal_error=errors[1])
        assert one.claim == claim


def test_scores():
    rows = [np.array([0.2, 0.8]), np.array([1.0, 0.0])]
    assert hellinger(rows, rows) == 0
    direct = np.mean([np.sqrt(1 - np.sqrt(r * [0.5, 0.5]).sum()) for r in rows])
    assert hellinger(rows, [np.array([0.5, 0.5])] * 2) == pytest.approx(direct)
    assert hellinger([], []) == 0
    assert score_of(math.inf, 1.0) == 0
    model = FactorGraph(
        [Variable("a", 2), Variable("b", 3)], [TableFactor(["a"], [0.0, math.log(3)])]
    )
    assert trivial_log_partition(model) == pytest.approx(math.log(4 * 3))  # here it is the truth
    # What evidence leaves may have factors over nothing.
    first, *others = (variable.name for variable in model.variables)
    left = model.condition({name: "#0" for name in (first, *others[:1])})
    assert any(group.arity == 0 for group in left.groups)
    assert math.isfinite(trivial_log_partition(left))


def test_results_are_checked(tmp_path):
    (tmp_path / "answers").mkdir()
    result = Result("a", Rules(), method="bp", log10_partition=1.5, doubts=("one",))
    write_result(tmp_path, result)
    path = tmp_path / "answers/a.json"
    assert read_result(path) == result
    content = json.loads(path.read_text())
    for name, value in (("doubts", [1]), ("seconds", "1"), ("rules", {"seconds": 0}), ("x", 1)):
        path.write_text(json.dumps({**content, name: value}))
        with pytest.raises(DeltaAIError, match="delete it"):
            read_result(path)
    path.write_text("[" * 100_000)
    with pytest.raises(DeltaAIError):
        read_result(path)


def test_a_problem_that_dies_is_tried_again(problems, tmp_path, monkeypatch):
    def dead(run_part, parts, jobs, keep, watch, *, is_apart):
        from deltaai.experiments.harness.runner import Outcome

        for part in parts:
            keep(Outcome(part, (), 1.0, "its process died with exit code -9"))

    monkeypatch.setattr(contest_module, "run_parts", dead)
    found = run_contest(problems, tmp_path / "out", Rules())
    assert found.num_run == 3
    assert all("died" in one.reason for one in found.judged)
    monkeypatch.undo()
    again = run_contest(problems, tmp_path / "out", Rules(seconds=60), resume=True)
    assert again.num_run == 3
    assert all(one.result.status == "exact" for one in again.judged)
    assert EXIT_PART_FAILED == 1


@pytest.mark.slow
def test_killed_and_resumed(problems, tmp_path):
    """A run that is killed outright keeps what was answered and goes on where it was."""
    for number in range(4):
        put(problems, f"more{number}", zoo.ising_lattice(side=4, sigma=0.5, seed=number))
    out = tmp_path / "out"
    program = "from deltaai.cli.entry import main; main()"
    command = [sys.executable, "-c", program, "bench", "uai", str(problems), "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while len(list(out.glob("answers/*.json"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    num_kept = len(list(out.glob("answers/*.json")))
    assert num_kept >= 2
    found = run_contest(problems, out, Rules(), resume=True)
    assert found.num_kept >= num_kept
    assert len(found.judged) == 7
    assert all(one.claim in ("holds", "unknown") for one in found.judged)
