"""Progress: bars where someone looks, nothing elsewhere, and functions that are told."""

import io
import sys
from contextlib import redirect_stderr
from types import ModuleType, SimpleNamespace

import pytest

import deltaai as dai
from deltaai import progress


@pytest.fixture
def model():
    return dai.zoo.ising_lattice(side=3, sigma=0.2, seed=0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Bars do not wait."""
    monkeypatch.setattr(progress, "_MOMENT", 0.0)
    monkeypatch.setenv("TERM", "xterm")


def shown(call):
    """What a terminal is told while something runs."""
    with redirect_stderr(Terminal()) as stream:
        call()
    return stream.getvalue()


def test_fit_shows_a_bar_in_a_terminal_and_none_on_request(model):
    assert "training" in shown(lambda: dai.fit(model, steps=3))
    assert shown(lambda: dai.fit(model, steps=3, progress=False)) == ""


@pytest.mark.parametrize("evidence", [{}, [{"x_0_0": 1}, {}]])
def test_query_and_tables_show_bars_in_a_terminal(model, evidence):
    assert "answering" in shown(lambda: dai.query(model, evidence))
    assert shown(lambda: dai.query(model, evidence, progress=False)) == ""


def test_a_pipe_sees_nothing(model, capfd):
    dai.fit(model, steps=3)
    dai.query(model)
    assert capfd.readouterr() == ("", "")


def test_quick_work_shows_nothing(model, monkeypatch):
    monkeypatch.setattr(progress, "_MOMENT", 100.0)
    assert shown(lambda: dai.query(model)) == ""


def test_functions_are_called(model):
    fractions, standings = [], []
    dai.fit(model, steps=4, progress=fractions.append, watch=standings.append)
    assert fractions == [0.25, 0.5, 0.75, 1.0]
    assert [standing.step for standing in standings] == [1, 2, 3, 4]
    fractions.clear()
    dai.query(model, progress=fractions.append)
    assert max(fractions) == pytest.approx(1.0)


def test_a_bar_and_a_function_that_watches_go_together(model):
    steps = []
    told = lambda standing: steps.append(standing.step)  # noqa: E731
    assert "training" in shown(lambda: dai.fit(model, steps=3, watch=told))
    assert steps == [1, 2, 3]


def test_a_bar_goes_when_work_is_interrupted(model):
    def interrupted():
        def interrupt(standing):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            dai.fit(model, steps=3, watch=interrupt)

    assert shown(interrupted).endswith("\x1b[2K")  # the line of the bar is erased


def test_notebooks_have_bars_of_their_own(model, monkeypatch):
    drawn = []
    handle = SimpleNamespace(update=drawn.append)

    class ZMQInteractiveShell:
        pass

    package, display = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = ZMQInteractiveShell
    display.HTML = str
    display.display = lambda value, display_id: drawn.append(value) or handle
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(progress, "_REDRAWN_AFTER", 0.0)
    dai.fit(model, steps=3)
    assert "<progress value='3' max='3'>" in drawn[-2]
    assert drawn[-1] == ""
