"""What comes at once comes without torch; names of the package are there when they are used."""

import ast
import gzip
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import deltaai as dai
from deltaai import errors
from deltaai.cli.completion import read_states

ALL_AT_ONCE = """
import json, os, sys
from deltaai.cli.entry import main

commands = ["plan", "check", "query", "fit", "sample", "reproduce", "demo"]
lines = [["--version"], ["--help"], *([name, "--help"] for name in commands)]
codes = []
for words in [*lines, ["query", "--nonsense"], ["plan", "x.uai", "--time-limit", "nan"]]:
    sys.argv = ["deltaai", *words]
    try:
        main()
    except SystemExit as stop:
        codes.append(stop.code)
heavy = {"torch", "scipy", "numpy", "deltaai.models"} & set(sys.modules)
print(json.dumps([codes, sorted(heavy)]), file=sys.stderr)
"""


def test_help_and_version_do_not_import_torch():
    done = subprocess.run(
        [sys.executable, "-c", ALL_AT_ONCE], capture_output=True, text=True, check=False
    )
    codes, heavy = json.loads(done.stderr.splitlines()[-1])
    assert codes == [0] * 9 + [2, 2]
    assert heavy == []
    assert "Usage" in done.stdout
    assert dai.__version__ in done.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("deltaai qu", "query"),
        ("deltaai query --evid", "--evidence-file"),
        ("deltaai query s.bif --of wet", "wet_grass"),
        ("deltaai query s.bif -e rain=y", "rain=yes"),
    ],
)
def test_completion_does_not_import_torch(tmp_path, line, expected):
    dai.write(dai.zoo.sprinkler(), tmp_path / "s.bif")
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    paths = [str(tmp_path), str(Path(dai.__file__).parents[1])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "_DELTAAI_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    program = "import sys; sys.argv = ['deltaai']; from deltaai.cli.entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert expected in done.stdout.split(), done.stderr
    assert "torch was imported" not in done.stderr


def test_completion_reads_the_names_that_models_have(tmp_path):
    model = dai.FactorGraph(
        [
            dai.Variable("rain", ["no", "yes"]),
            dai.Variable("how much, about", ["not a lot", "a,lot", "flood"]),
        ],
        [],
    )
    lattice = dai.zoo.ising_lattice(side=2, sigma=0.2, seed=0)
    dai.write(lattice, tmp_path / "m.uai")
    numbered = dai.read(tmp_path / "m.uai")
    dai.fit(lattice, steps=0).save(tmp_path / "m.dai")
    sprinkler = dai.zoo.sprinkler()
    dai.write(sprinkler, tmp_path / "s.bif")
    packed = gzip.compress((tmp_path / "s.bif").read_bytes())
    (tmp_path / "s.bif.gz").write_bytes(packed)
    (tmp_path / "quoted.bif").write_text(
        "network x {}\n// variable no { type discrete [ 1 ] { no }; }\n"
        "variable rain { type discrete [ 2 ] { no, yes }; }\n"
        'variable "how much, about" { type discrete [3] {"not a lot", "a,lot", flood}; }\n'
    )
    for name, source in {
        "m.uai": numbered,
        "m.dai": lattice,
        "s.bif": sprinkler,
        "s.bif.gz": sprinkler,
        "quoted.bif": model,
    }.items():
        found = {key: tuple(states) for key, states in read_states(tmp_path / name).items()}
        assert found == {variable.name: variable.states for variable in source.variables}, name
    (tmp_path / "cut.bif.gz").write_bytes(packed[:-20])
    (tmp_path / "wrong.uai").write_text("MARKOV\nthree\n")
    (tmp_path / "wrong.dai").write_bytes(b"\xff" * 40)
    for name in ("cut.bif.gz", "wrong.uai", "wrong.dai", "none.bif", "."):
        assert read_states(tmp_path / name) == {}


def test_the_package_has_the_names_it_shows_and_no_others():
    assert dir(dai) == sorted([*dai.__all__, "__version__"])
    shown = {name for name in vars(errors) if isinstance(getattr(errors, name), type)}
    assert {n for n in shown if issubclass(getattr(errors, n), dai.DeltaAIError)} <= set(dir(dai))
    with pytest.raises(AttributeError, match="has no attribute 'numpy'"):
        dai.numpy  # noqa: B018


def test_names_are_what_type_checkers_are_told():
    tree = ast.parse(Path(dai.__file__).read_text())
    told = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("deltaai."):
            for alias in node.names:
                told[alias.asname or alias.name] = (node.module, alias.name)
    assert set(told) == set(dai.__all__)
    for name, (module, there) in told.items():
        found = getattr(importlib.import_module(module), there)
        if name != "exact":  # the folder, which can be called like the function
            assert getattr(dai, name) is found, name
    assert inspect.signature(dai.exact) == inspect.signature(dai.exact.exact)


def test_only_torch_comes_with_the_names():
    program = """
import sys, deltaai as dai
assert "torch" not in sys.modules
assert [getattr(dai, name) for name in dai.__all__]
heavy = "scipy.stats scipy.sparse scipy.optimize arviz_stats rich pandas matplotlib"
assert not set(heavy.split()) & set(sys.modules), sorted(sys.modules)
assert dai.exact(dai.zoo.sprinkler()).log_partition() < 1e-9
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "first",
    [
        "import deltaai.exact.inference",
        "from deltaai import exact; import deltaai",
    ],
)
def test_exact_is_a_folder_that_can_be_called(first):
    program = f"""
{first}
import pickle
import deltaai.exact.memory as memory
import deltaai.exact as folder
assert deltaai.exact is folder
assert deltaai.exact.memory is memory
assert deltaai.exact.inference.exact is deltaai.exact.exact
assert abs(deltaai.exact(deltaai.zoo.sprinkler()).log_partition()) < 1e-9
assert pickle.loads(pickle.dumps(deltaai.exact)) is folder
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_nothing_is_imported_before_an_interrupt_is_one_word():
    program = """
import sys
before = set(sys.modules)
import deltaai.cli.entry
new = {name for name in set(sys.modules) - before if not name.startswith("deltaai")}
assert new <= {"__future__", "atexit"}, new
"""
    subprocess.run([sys.executable, "-c", program], check=True)


TRAINING = """
import sys
import deltaai as dai

dai.fit(dai.zoo.ising_lattice(side=2, sigma=0.3, seed=0), steps=2, progress=False)
print({"torch._dynamo", "numba"} & set(sys.modules) or "neither")
"""


def test_training_a_small_model_imports_no_compiler():
    done = subprocess.run(
        [sys.executable, "-c", TRAINING], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "neither"
