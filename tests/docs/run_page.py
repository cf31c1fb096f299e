"""Run the code of a page of documentation as it is printed, in the present folder.

python tests/docs/run_page.py README.md

Blocks run in their order: ``python`` blocks in one namespace, each with the ``text`` block that may
follow it as what it prints; lines of ``console`` blocks that begin with ``$`` in a shell, with the
lines below as what they print; lines of ``bash`` blocks in a shell. `make` lines are not run, and
`pip install` lines only if ``--install`` says so. Printed output is compared after times and limits
of memory are masked; numbers may differ in the third digit; a line ``...`` stands for any lines.
Needs nothing but Python, so that it runs in an environment that has only the package.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)")
_TOLERANCE = 2e-3  # relative: digits that do not depend on the machine
_MASKED = [
    (re.compile(r"\d[\d.]* (?:s|min)\b"), "TIME"),
    (re.compile(r"\d[\d.,]* (?:GiB|MiB|KiB)\b"), "SIZE"),
]


def blocks(text: str) -> list[tuple[str, str, int]]:
    """Kind, content and line of every fenced block."""
    found = []
    for match in re.finditer(r"^```(\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        found.append((match[1], match[2], text.count("\n", 0, match.start()) + 1))
    return found


def is_same(expected: str, printed: str) -> bool:
    """Whether a line is what a page says, up to times, limits of memory and rounding."""
    for pattern, mask in _MASKED:
        expected, printed = pattern.sub(mask, expected), pattern.sub(mask, printed)
    numbers = [[float(word) for word in _NUMBER.findall(line)] for line in (expected, printed)]
    words = [" ".join(_NUMBER.sub("#", line).split()) for line in (expected, printed)]
    pairs = zip(*numbers, strict=False)
    is_near = all(abs(a - b) <= _TOLERANCE * max(abs(a), 0.05) for a, b in pairs)
    return words[0] == words[1] and len(numbers[0]) == len(numbers[1]) and is_near


def difference(expected: str, printed: str) -> str:
    """What differs between two outputs, or nothing."""
    wanted = [line for line in expected.splitlines() if line.strip()]
    shown = [line for line in printed.splitlines() if line.strip()]
    while wanted:
        line = wanted.pop(0)
        if line.strip() == "...":
            while shown and not (wanted and is_same(wanted[0], shown[0])):
                shown.pop(0)
        elif not shown or not is_same(line, shown.pop(0)):
            return f"expected {line!r} in:\n{printed}"
    return f"nothing more expected than\n{expected}\nbut printed was\n{printed}" if shown else ""


def run_python(code: str, names: dict[str, object], page: str) -> str:
    """What a block prints."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        exec(compile(code, page, "exec"), names)
    return stream.getvalue()


def run_shell(command: str, *, is_installing: bool) -> str:
    """What a command prints; nothing if it is not to be run here."""
    if command.startswith("make "):
        return ""
    if command.startswith("pip install"):
        if not is_installing:
            return ""
        command = f"{sys.executable} -m {command}"
    done = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # A command that is refused on purpose is printed with its error.
    if done.returncode not in (0, 2, 3) or "Traceback" in done.stdout:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def console_parts(content: str) -> list[tuple[str, str]]:
    """Commands of a console block, each with what is printed below it."""
    parts = re.split(r"^\$ ", content, flags=re.MULTILINE)
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts if part.strip()]


def run_page(path: Path, *, is_installing: bool = False) -> int:
    """Run all blocks of a page; stop at the first that does not do what is printed."""
    found = blocks(path.read_text())
    names: dict[str, object] = {"__name__": "__main__"}
    num_run = 0
    for number, (kind, content, line) in enumerate(found):
        where, pairs = f"{path.name}, line {line}", []
        if kind == "python":
            printed = run_python(content, names, where)
            follows = found[number + 1] if number + 1 < len(found) else ("", "", 0)
            if follows[0] == "text":
                pairs = [(follows[1], printed)]
        elif kind == "console":
            parts = console_parts(content)
            pairs = [(text, run_shell(word, is_installing=is_installing)) for word, text in parts]
        elif kind == "bash":
            for command in content.splitlines():
                run_shell(command.partition("  #")[0].strip(), is_installing=is_installing)
        elif kind != "text":
            raise SystemExit(f"{where}: a block of an unknown kind, {kind!r}")
        for expected, printed in pairs:
            if differs := difference(expected, printed):
                raise SystemExit(f"{where}: {differs}")
        num_run += kind != "text"
    return num_run


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--install"]
    for word in words:
        count = run_page(Path(word), is_installing="--install" in sys.argv)
        print(f"{word}: {count} blocks run as printed")
