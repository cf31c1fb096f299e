"""Run commands in a process of their own, and measure what each takes beyond the libraries.

Limits are for what an answer takes; the interpreter and the libraries are counted apart. So a
process first imports all of them and answers one small question of each kind, with a sampler only
for commands that train one, then runs the command and reports by how much its peak rose, and the
seconds on the clock and on the processor.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

_CHILD = r"""
import ctypes, json, sys, time
import deltaai as dai, scipy.stats, arviz_stats
from deltaai.cli.app import main
from deltaai.conditionals.flips import load_compiled

def memory(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024

small = dai.zoo.ising_lattice(side=3, sigma=0.3, seed=0)
dai.query(small)
if TRAINS:
    dai.query(small, method="sampler", time_limit=1)
    load_compiled()
dai.query_table(small, [{}])
dai.learn([{"a": 0}, {"a": 1}])
ctypes.CDLL("libc.so.6").malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
sys.argv = ["deltaai", *json.loads(sys.argv[2])]
before, start, used, code = memory("VmRSS"), time.perf_counter(), time.process_time(), 0
try:
    main()
except SystemExit as stop:
    code = stop.code or 0
figures = {
    "code": code,
    "seconds": time.perf_counter() - start,
    "processor_seconds": time.process_time() - used,
    "bytes": memory("VmHWM") - before,
}
with open(FIGURES, "w") as stream:
    json.dump(figures, stream)
"""


@dataclass(frozen=True)
class Measured:
    """What a command took: exit code, seconds, bytes, and the ends of what it wrote."""

    code: int
    seconds: float
    processor_seconds: float
    bytes: int
    out: str
    err: str

    def is_within_time(self, limit):
        """Whether it ended within 10 % of a limit, and one second of work.

        Clocks are looked at between steps: an update of training, a piece of samples, a pass of
        messages, a block of rows. One of each may be under way. On a busy machine a second of work
        takes longer on the clock.
        """
        slowness = max(self.seconds / max(self.processor_seconds, 0.1), 1.0)
        return self.seconds <= 1.1 * limit + slowness

    def is_within_memory(self, limit):
        """Whether the peak was within 10 % of a limit, and 16 MiB.

        So much the model, the screen and small objects take whatever is asked.
        """
        return self.bytes <= 1.1 * limit + 2**24


def measured(folder, *arguments, stdin=subprocess.DEVNULL, timeout=200):
    """Run ``deltaai`` with these arguments in a folder."""
    figures = folder / "figures.json"
    figures.unlink(missing_ok=True)
    is_training = arguments[0] in ("fit", "learn") or "sampler" in arguments
    child = _CHILD.replace("FIGURES", repr(str(figures))).replace("TRAINS", str(is_training))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with (folder / "out.txt").open("w+") as out, (folder / "err.txt").open("w+") as err:
        subprocess.run(
            [sys.executable, "-c", child, "", json.dumps([str(word) for word in arguments])],
            cwd=folder,
            env=environment,
            stdin=stdin,
            stdout=out,
            stderr=err,
            timeout=timeout,
            check=False,
        )
        out.seek(0)
        err.seek(0)
        found, errors = out.read(4000), err.read()
    assert figures.exists(), errors
    return Measured(**json.loads(figures.read_text()), out=found, err=errors)
