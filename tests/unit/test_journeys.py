"""What the journeys of docs/architecture.md call is there, under the names that they give."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
SECTION = PAGE.read_text("utf-8").partition("## Five journeys")[2].partition("\n## ")[0]
STEPS = sorted(set(re.findall(r"`([a-z_.]+): ([A-Za-z_.]+)`", SECTION)) - {("a.b", "c")})


def test_there_are_five_journeys_in_steps():
    journeys = re.split(r"^\*\*", SECTION, flags=re.MULTILINE)[1:]
    assert len(journeys) == 5
    for journey in journeys:
        numbers = re.findall(r"^(\d)\. ", journey, flags=re.MULTILINE)
        assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))
        assert len(numbers) > 3
    assert len(STEPS) > 60


@pytest.mark.parametrize(("module", "names"), STEPS, ids=lambda part: part)
def test_a_step_is_there(module, names):
    found = importlib.import_module(f"deltaai.{module}")
    for name in names.split("."):
        found = getattr(found, name)
    assert callable(found)
    home = getattr(found, "__module__", "")
    assert home == f"deltaai.{module}", f"it stands in {home}"
