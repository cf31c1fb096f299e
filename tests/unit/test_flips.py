"""Hidden units of flips: the compiled pass against what torch gives, and threads against one."""

import importlib
import sys
import threading

import pytest
import torch

import deltaai as dai
from deltaai.conditionals import flips
from deltaai.conditionals.hyperbolic import tanh
from deltaai.threads import limited_threads, over_threads


def units(size=5, inputs=7, hidden=12, batch=9, scale=1.0, seed=0):
    """Before, first, moves and last, of which all but the moves have gradients."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return scale * torch.randn(shape, generator=generator)

    found = [normal(size, hidden, batch), normal(size, hidden, inputs), normal(size, 1, hidden)]
    before, first, last = (value.requires_grad_() for value in found)
    return before, first, normal(size, inputs, batch), last


ACTIVATIONS = {
    "tanh": torch.tanh,
    "silu": torch.nn.functional.silu,
    "hardswish": torch.nn.functional.hardswish,
}


def written_out(before, first, moves, last, activation):
    act = ACTIVATIONS[activation]
    hidden = act(before[:, :, None] + first[..., None] * moves[:, None])
    return torch.einsum("vlh,vhib->vlib", last, hidden)


def slopes(moved, given):
    weights = torch.randn(moved.shape, generator=torch.Generator().manual_seed(1)).to(moved.dtype)
    return torch.autograd.grad((moved * weights).sum(), [given[0], given[1], given[3]])


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("sizes", [(5, 7, 12, 9), (1, 1, 1, 1), (3, 0, 4, 2), (2, 40, 33, 64)])
def test_units_and_their_slopes(sizes, scale, activation, is_compiled):
    given = units(*sizes, scale=scale)
    moved = flips.flipped_units(*given, activation, is_compiled=is_compiled)
    doubles = [value.detach().double().requires_grad_() for value in given]
    wanted = written_out(*doubles, activation)
    found = [moved, *slopes(moved, given)]
    for one, other in zip(found, [wanted, *slopes(wanted, doubles)], strict=True):
        size = max([1.0, *other.detach().abs().flatten().tolist()])
        torch.testing.assert_close(one.double(), other, atol=3e-6 * size, rtol=1e-4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_compiled_pass_is_exact_far_out(activation):
    x = torch.cat((torch.linspace(-100, 100, 4001), torch.tensor([0.0, 1e-8, -1e-8, 1e30, -1e30])))
    given = x[None, None], torch.zeros(1, 1, 1), torch.zeros(1, 1, len(x)), torch.ones(1, 1, 1)
    found = flips.flipped_units(*given, activation, is_compiled=True)[0, 0, 0]
    double = x.double()
    wanted = ACTIVATIONS[activation](double)
    # A sigmoid is right to the precision of one, 6e-8, and is multiplied by x.
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tangents_by_sigmoids(dtype):
    far = torch.tensor([0.0, 1e-8, 1e30, -1e30, torch.inf, -torch.inf])
    x = torch.cat((torch.linspace(-50, 50, 4001), far)).to(dtype).requires_grad_()
    wanted = x.detach().double().tanh()
    found = tanh(x)
    (slope,) = torch.autograd.grad(found.sum(), x)
    atol = 2e-7 if dtype == torch.float32 else 1e-15
    torch.testing.assert_close(found.detach().double(), wanted, rtol=0, atol=atol)
    torch.testing.assert_close(slope.double(), 1 - wanted**2, rtol=0, atol=4 * atol)
    with torch.no_grad():
        assert torch.equal(tanh(x), found)
        assert bool(tanh(torch.tensor([torch.nan], dtype=dtype)).isnan())
    assert x.detach()[0] == -50  # nothing is computed in place


def test_what_is_not_a_number_stays_that():
    before, first, moves, last = units()
    with torch.no_grad():
        before[2, 3, 4] = torch.nan
    for activation in ACTIVATIONS:
        moved = flips.flipped_units(before, first, moves, last, activation, is_compiled=True)
        is_lost = moved.isnan()
        assert is_lost[2, 0, :, 4].all()
        assert int(is_lost.sum()) == moves.shape[1]


def test_threads_change_nothing():
    given = units(size=30, inputs=60, hidden=32, batch=40)  # work enough for several threads
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(3)
        try:
            with limited_threads(threads):
                moved = flips.flipped_units(*given, "silu", is_compiled=True)
                found.append([moved, *slopes(moved, given)])
        finally:
            torch.set_num_threads(1)
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


def test_every_part_is_done_once_and_errors_come_back():
    done, here = [], []
    torch.set_num_threads(4)
    try:
        over_threads(lambda start, stop: done.extend(range(start, stop)), 10, most=4)
        over_threads(lambda *_: here.append(threading.current_thread()), 10, most=1)
        with pytest.raises(ZeroDivisionError):
            over_threads(lambda start, _: 1 / (start - 5), 10, most=2)
    finally:
        torch.set_num_threads(1)
    assert sorted(done) == list(range(10))
    assert here == [threading.current_thread()]


@pytest.fixture
def without_numba(monkeypatch):
    flips.load_compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "deltaai.conditionals.compiled_flips", raising=False)
    yield
    flips.load_compiled.cache_clear()


def test_without_numba_all_goes_on(without_numba):
    with pytest.raises(ImportError):
        importlib.import_module("deltaai.conditionals.compiled_flips")
    given = units()
    moved = flips.flipped_units(*given, "silu", is_compiled=True)
    torch.testing.assert_close(moved, written_out(*given, "silu"))


@pytest.mark.parametrize("orders", ["one", "many"])
def test_training_is_the_same_but_for_rounding(orders, monkeypatch):
    model = dai.zoo.ising_lattice(side=4, sigma=0.5, seed=0)
    settings = {"orders": orders, "steps": 8, "seed": 0, "polish_steps": 0, "progress": False}
    states = dai.exact(model).sample(50, 0)
    settings["states"] = states  # those that q draws in one pass are others
    kept = dai.fit(model, **settings).log_prob(states)
    monkeypatch.setattr(flips, "_MANY", 1)
    assert flips.load_compiled() is not None
    compiled = dai.fit(model, **settings).log_prob(states)
    torch.testing.assert_close(compiled, kept, atol=1e-3, rtol=1e-4)
    assert not torch.equal(compiled, kept)  # or the other pass was not taken


def test_passes_may_have_threads_while_torch_has_one():
    used = []

    def work(start, stop):
        used.append((start, stop))

    torch.set_num_threads(2)
    try:
        with limited_threads(1, passes=3):
            assert torch.get_num_threads() == 1
            over_threads(work, 9, most=10)
            assert len(used) == 3
            with limited_threads(1):  # asked for nothing: as torch
                over_threads(work, 9, most=10)
            assert len(used) == 4
        over_threads(work, 9, most=10)
        assert len(used) == 6
    finally:
        torch.set_num_threads(1)
