"""CPU seconds of what should come at once: help, version, completion, and importing the package.

    python benchmarks/startup.py [--repeats 5]

Each line is a process of its own, so clocks and caches are those of a user; the smallest of the
repeats is printed, for others on the machine can only add to it. What ``import deltaai`` and its
use add to torch is a difference of two such lines.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import deltaai as dai

COMMAND = [sys.executable, "-m", "deltaai.cli"]
EVERYTHING = "import torch, deltaai as dai; [getattr(dai, name) for name in dai.__all__]"


def cpu_seconds(command, repeats, **others):
    """CPU seconds of a command, the fewest of some runs."""
    found = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=False, **others)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def completion(folder, line):
    """What a shell sets when it asks for completions."""
    words = {"_DELTAAI_COMPLETE": "complete_bash", "COMP_WORDS": line}
    words["COMP_CWORD"] = str(len(line.split()) - 1)
    return {"cwd": folder, "env": {**os.environ, **words}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    typed = [
        sys.executable,
        "-c",
        "import sys; sys.argv = ['deltaai']; import deltaai.cli.__main__",
    ]
    with tempfile.TemporaryDirectory() as folder:
        dai.write(dai.zoo.sprinkler(), Path(folder) / "s.bif")
        lines = {
            "deltaai --version": ([*COMMAND, "--version"], {}),
            "deltaai --help": ([*COMMAND, "--help"], {}),
            "deltaai query --help": ([*COMMAND, "query", "--help"], {}),
            "completion of an option": (typed, completion(folder, "deltaai query --ev")),
            "completion of a name": (typed, completion(folder, "deltaai query s.bif --of ra")),
            "import deltaai": ([sys.executable, "-c", "import deltaai"], {}),
            "import torch": ([sys.executable, "-c", "import torch"], {}),
            "import torch, all of deltaai": ([sys.executable, "-c", EVERYTHING], {}),
        }
        found = {}
        for name, (command, others) in lines.items():
            found[name] = cpu_seconds(command, repeats, **others)
            print(f"{name:32s} {found[name]:6.2f} s", flush=True)
    added = found["import torch, all of deltaai"] - found["import torch"]
    print(f"{'deltaai adds to torch':32s} {added:6.2f} s")


if __name__ == "__main__":
    main()
