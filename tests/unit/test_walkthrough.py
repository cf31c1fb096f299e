"""The walk-through in the documentation runs as it is printed."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "walkthrough.md"


def test_walkthrough_runs_from_top_to_bottom(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), names)
    assert (tmp_path / "residuals.png").stat().st_size > 5000
    assert (tmp_path / "lattice.dai").exists()
