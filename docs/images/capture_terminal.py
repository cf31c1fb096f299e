"""Run commands in a terminal and keep what it shows, colours and all, as an SVG picture.

python docs/images/capture_terminal.py docs/images/terminal.svg
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 92
CASES = "smoke,xray,dysp\nyes,,\nno,yes,\n,yes,yes\n,no,\n"


def show(command: str, folder: Path) -> str:
    """What a terminal shows when a command runs in it; progress that has gone is left out."""
    parent, child = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    running = subprocess.Popen(
        command, shell=True, cwd=folder, stdout=child, stderr=child, env=environment
    )
    os.close(child)
    shown = b""
    while True:
        try:
            part = os.read(parent, 4096)
        except OSError:  # the other end is closed
            break
        shown += part
    running.wait()
    lines = shown.decode().replace("\r\n", "\n").split("\x1b[2K")[-1]
    return re.sub(r"\x1b\[(\?25[lh]|\d*A)", "", lines)


def main() -> None:
    """Run the commands and write the picture."""
    output = Path(sys.argv[1]).resolve()
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.csv").write_text(CASES)
        for command in (
            "deltaai query asia --evidence smoke=yes --of lung,bronc",
            "deltaai query asia --evidence-file cases.csv --of lung,bronc",
            "deltaai plan lattice",
            "deltaai query asia --of lunk",
        ):
            console.print(f"[bold green]$[/] [bold]{command}[/]", highlight=False)
            console.print(Text.from_ansi(show(command, folder).rstrip()))
            console.print()
    picture = console.export_svg(title="deltaai")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # nothing from elsewhere
    output.write_text(re.sub(r"<!--.*?-->\n?", "", picture, flags=re.DOTALL).strip() + "\n")


if __name__ == "__main__":
    main()
