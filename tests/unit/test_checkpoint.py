"""Checkpoint files: back bit for bit, complete at any moment, and refused when anything changed."""

from __future__ import annotations

import json
import math
import os
import pickle
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jaxtyping import config as jaxtyping_config
from torch import Tensor, nn

from deltaai.errors import DeltaAIError, FormatError
from deltaai.io.atomic import replace_file
from deltaai.io.tensor_files import FORMAT_VERSION, load_tensors, save_tensors
from deltaai.training.nested_state import pack_state, unpack_state

TENSORS = {
    "weight": torch.arange(6.0).reshape(2, 3) / 7,
    "step": torch.tensor(3.0),
    "mask": torch.tensor([True, False]),
    "none": torch.zeros(0, 4),
    "order": torch.tensor([2, 0, 1]),
}
METADATA = {"step": 3, "loss": 0.1, "note": "größer", "nested": {"list": [1, None, True]}}


@pytest.fixture
def _as_a_user_runs_it() -> Iterator[None]:
    """Switch the tests' own type checks off: users do not have them, and must see our errors."""
    before = jaxtyping_config.jaxtyping_disable
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", before)


def assert_same(left: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    assert sorted(left) == sorted(right)
    for name, tensor in left.items():
        assert tensor.dtype == right[name].dtype
        assert tensor.shape == right[name].shape
        assert bytes_of(tensor) == bytes_of(right[name])


def bytes_of(tensor: Tensor) -> bytes:
    """To compare bit for bit: NaN with NaN, and zero with minus zero as different."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


# -- writing and reading -----------------------------------------------------------------------


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "run.dai"
    save_tensors(path, TENSORS, METADATA, kind="checkpoint")
    tensors, metadata = load_tensors(path, "checkpoint")
    assert_same(tensors, TENSORS)
    assert metadata == METADATA
    assert os.listdir(tmp_path) == ["run.dai"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.uint8, torch.complex64])
def test_every_type_of_number(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {"a": torch.tensor([0, 1, 2]).to(dtype)}
    save_tensors(tmp_path / "a", tensors, {}, kind="a")
    assert_same(load_tensors(tmp_path / "a", "a")[0], tensors)


def test_special_numbers_keep_their_bits(tmp_path: Path) -> None:
    tensors = {"a": torch.tensor([math.nan, -math.nan, math.inf, -math.inf, -0.0, 1e-45])}
    save_tensors(tmp_path / "a", tensors, {}, kind="a")
    assert_same(load_tensors(tmp_path / "a", "a")[0], tensors)


def test_tensors_in_any_layout(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    parameter = nn.Parameter(torch.ones(2))
    tensors = {"all": base, "turned": base.t(), "again": base, "part": base[1:, 2:], "p": parameter}
    save_tensors(tmp_path / "a", tensors, {}, kind="a")
    loaded, _ = load_tensors(tmp_path / "a", "a")
    assert_same(loaded, {name: tensor.detach().clone() for name, tensor in tensors.items()})
    loaded["all"].zero_()
    assert loaded["again"].sum() == base.sum()  # separate, once loaded


def test_nothing_at_all(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", {}, {}, kind="a")
    assert load_tensors(tmp_path / "a", "a") == ({}, {})


def test_loaded_tensors_do_not_depend_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_tensors(path, TENSORS, {}, kind="a")
    tensors, _ = load_tensors(path, "a")
    path.write_bytes(bytes(path.stat().st_size))
    assert_same(tensors, TENSORS)


def test_a_file_is_replaced_with_its_rights_and_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    save_tensors(path, {}, {"number": 1}, kind="a")
    assert path.stat().st_mode & stat.S_IRUSR
    path.chmod(0o640)
    link.symlink_to(path)
    save_tensors(link, {}, {"number": 2}, kind="a")
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert load_tensors(path, "a")[1] == {"number": 2}


@pytest.mark.parametrize(
    "metadata",
    [{"a": math.nan}, {"a": math.inf}, {"a": object()}, {1: 2}, {"a": {1: 2}}, {"a": (1, 2)}],
)
@pytest.mark.usefixtures("_as_a_user_runs_it")
def test_metadata_that_json_would_change_is_refused(tmp_path: Path, metadata: dict) -> None:
    with pytest.raises(DeltaAIError, match="cannot store this in"):
        save_tensors(tmp_path / "a", {}, metadata, kind="a")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "tensors",
    [
        {"a": torch.zeros(2, dtype=torch.complex128)},
        {"a": torch.eye(2).to_sparse()},
        {"a": torch.zeros(2, device="meta")},
        {"__metadata__": torch.zeros(2)},
    ],
    ids=["complex128", "sparse", "meta", "reserved name"],
)
def test_tensors_the_format_lacks_are_refused(tmp_path: Path, tensors: dict) -> None:
    with pytest.raises(DeltaAIError, match="cannot store this in"):
        save_tensors(tmp_path / "a", tensors, {}, kind="a")
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DeltaAIError, match=r"cannot write .*No such file or directory"):
        save_tensors(tmp_path / "missing" / "a", {}, {}, kind="a")
    with pytest.raises(DeltaAIError, match="cannot write"):
        save_tensors(tmp_path, {}, {}, kind="a")  # a folder
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    save_tensors(path, TENSORS, METADATA, kind="a")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DeltaAIError, match="No space left on device"):
        save_tensors(path, {}, {}, kind="a")
    assert os.listdir(tmp_path) == ["a"]
    assert load_tensors(path, "a")[1] == METADATA


def test_leftovers_of_killed_writers_are_cleared_when_they_are_old(tmp_path: Path) -> None:
    old, young = tmp_path / ".a.0123.tmp", tmp_path / ".a.4567.tmp"
    other = tmp_path / ".b.0123.tmp"
    for leftover in (old, young, other):
        leftover.write_bytes(b"half")
    for leftover in (old, other):
        os.utime(leftover, (time.time() - 7200,) * 2)
    replace_file(tmp_path / "a", b"whole")
    assert sorted(os.listdir(tmp_path)) == [young.name, other.name, "a"]


# -- refusals ----------------------------------------------------------------------------------


def saved(path: Path) -> Path:
    save_tensors(path, TENSORS, METADATA, kind="checkpoint")
    return path


def with_header(path: Path, **changes: object) -> Path:
    """A file of ours but for these entries in its JSON."""
    header: dict[str, Any] = {"format": "deltaai", "version": FORMAT_VERSION, "kind": "checkpoint"}
    header |= {"metadata": {}, "sha256": "0"} | changes
    path.write_bytes(safetensors.torch.save({}, {"deltaai": json.dumps(header)}))
    return path


def with_text(path: Path, text: str) -> Path:
    path.write_bytes(safetensors.torch.save({}, {"deltaai": text}))
    return path


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda path: path, "there is no such file"),
    "folder": (lambda path: path.parent, "this is not a file"),
    "empty": (lambda path: write(path, b""), "the file is empty"),
    "text": (lambda path: write(path, b"hello, world\n" * 9), "not a safetensors file"),
    "pickle": (lambda path: write(path, pickle.dumps([1] * 99)), "not a safetensors file"),
    "truncated": (
        lambda path: write(path, saved(path).read_bytes()[:-1]),
        "not a safetensors file, damaged, or cut short",
    ),
    "longer": (
        lambda path: write(path, saved(path).read_bytes() + b"\0"),
        "not a safetensors file, damaged, or cut short",
    ),
    "last byte": (
        lambda path: write(path, saved(path).read_bytes()[:-1] + b"\x7f"),
        "does not match its checksum",
    ),
    "foreign": (
        lambda path: write(path, safetensors.torch.save(TENSORS, {"format": "pt"})),
        "not one that deltaai wrote",
    ),
    "foreign, without metadata": (
        lambda path: write(path, safetensors.torch.save(TENSORS)),
        "not one that deltaai wrote",
    ),
    "other kind": (
        lambda path: with_header(path, kind="sampler"),
        "holds a 'sampler'; expected a 'checkpoint'",
    ),
    "newer": (
        lambda path: with_header(path, version=FORMAT_VERSION + 1, compression="zip"),
        f"newer deltaai .format version {FORMAT_VERSION + 1}; this one reads up to "
        f"{FORMAT_VERSION}",
    ),
    "older": (lambda path: with_header(path, version=1), "earlier deltaai .format version 1"),
    "version zero": (lambda path: with_header(path, version=0), "header is damaged"),
    "version true": (lambda path: with_header(path, version=True), "header is damaged"),
    "other name": (lambda path: with_header(path, format="alphaai"), "header is damaged"),
    "more entries": (lambda path: with_header(path, extra=1), "header is damaged"),
    "odd metadata": (lambda path: with_header(path, metadata=[1]), "metadata is not a dictionary"),
    "wrong checksum": (with_header, "does not match its checksum"),
    "no checksum": (lambda path: with_header(path, sha256=None), "does not match its checksum"),
    "NaN": (lambda path: with_header(path, metadata={"a": math.nan}), "NaN is not finite"),
    "too large": (lambda path: with_text(path, '{"metadata": {"a": 1e999}}'), "1e999 is not fin"),
    "no JSON": (lambda path: with_text(path, "{"), "header is damaged"),
    "a list": (lambda path: with_text(path, "[]"), "header is damaged"),
    "deep": (lambda path: with_text(path, "[" * 100_000), "header is damaged"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_is_not_whole_and_ours_is_refused(tmp_path: Path, case: str) -> None:
    spoil, problem = REFUSED[case]
    path = spoil(tmp_path / "run.dai")
    with pytest.raises(FormatError, match=problem) as caught:
        load_tensors(path, "checkpoint")
    assert caught.value.path == str(path)


def test_a_torch_file_is_not_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable, tuple]:
            return Path.touch, (tmp_path / "sprung",)

    torch.save(Trap(), tmp_path / "run.pt")
    with pytest.raises(FormatError, match="not a safetensors file"):
        load_tensors(tmp_path / "run.pt", "checkpoint")
    assert not (tmp_path / "sprung").exists()


DAMAGE = st.one_of(
    st.tuples(st.just("cut"), st.floats(0, 1), st.just(0)),
    st.tuples(st.just("flip"), st.floats(0, 1), st.integers(1, 255)),
    st.tuples(st.just("flip in length"), st.floats(0, 1), st.integers(1, 255)),
    st.tuples(st.just("insert"), st.floats(0, 1), st.integers(0, 255)),
)


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(DAMAGE, min_size=1, max_size=3))
def test_no_damage_goes_unnoticed(tmp_path: Path, damages: list[tuple[str, float, int]]) -> None:
    path = saved(tmp_path / "run.dai")
    content = bytearray(path.read_bytes())
    for kind, where, value in damages:
        end = 8 if kind == "flip in length" else len(content)
        place = min(int(where * end), max(len(content) - 1, 0))
        if kind == "cut":
            del content[place:]
        elif kind == "insert":
            content.insert(place, value)
        elif content:
            content[place] ^= value
    path.write_bytes(content)
    try:
        tensors, metadata = load_tensors(path, "checkpoint")
    except FormatError:
        return
    assert_same(tensors, TENSORS)  # the damage is in spaces, or undid itself
    assert metadata == METADATA


def test_every_single_byte_counts(tmp_path: Path) -> None:
    path = tmp_path / "run.dai"
    save_tensors(path, {"a": torch.ones(3)}, {"step": 1}, kind="checkpoint")
    content, num_harmless = path.read_bytes(), 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert load_tensors(path, "checkpoint")[1] == {"step": 1}
            num_harmless += 1
        except FormatError:
            pass
    assert num_harmless <= 8  # at most the spaces that fill the header up


# -- killed at any moment ----------------------------------------------------------------------

KILLED_WRITER = """
import os, random, signal, sys, time
import torch
from deltaai.io.tensor_files import load_tensors, save_tensors

path, tensor = sys.argv[1], torch.zeros(50_000)
delays = random.Random(0)
save_tensors(path, {"a": tensor}, {"step": 0}, kind="a")
last = 0
for _ in range(40):
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        step = last
        while True:
            step += 1
            save_tensors(path, {"a": tensor + step}, {"step": step}, kind="a")
            os.write(write_end, step.to_bytes(4, "little"))
    time.sleep(delays.uniform(0.005, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(write_end)
    with open(read_end, "rb") as reported:
        told = reported.read()
    acknowledged = int.from_bytes(told[-4:], "little") if told else last
    tensors, metadata = load_tensors(path, "a")
    last = metadata["step"]
    assert acknowledged <= last <= acknowledged + 1, (acknowledged, last)
    assert bool((tensors["a"] == last).all())
print(last)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "run.dai"
    finished = subprocess.run(
        [sys.executable, "-c", KILLED_WRITER, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) > 10  # it was killed while it wrote, not before
    save_tensors(path, {}, {}, kind="a")
    assert {name for name in os.listdir(tmp_path) if not name.endswith(".tmp")} == {"run.dai"}


# -- nested state ------------------------------------------------------------------------------


def through_a_file(state: object, folder: Path) -> Any:
    tensors, packed = pack_state(state)
    save_tensors(folder / "state", tensors, {"packed": packed}, kind="state")
    tensors, metadata = load_tensors(folder / "state", "state")
    return unpack_state(tensors, metadata["packed"])


def assert_equal_state(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, Tensor | np.ndarray):
        left_tensor, right_tensor = torch.as_tensor(left), torch.as_tensor(right)
        assert left_tensor.dtype == right_tensor.dtype
        assert left_tensor.shape == right_tensor.shape
        assert bytes_of(left_tensor) == bytes_of(right_tensor)
    elif isinstance(left, dict):
        assert list(left) == list(right)
        assert [type(key) for key in left] == [type(key) for key in right]
        for key in left:
            assert_equal_state(left[key], right[key])
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for first, second in zip(left, right, strict=True):
            assert_equal_state(first, second)
    elif isinstance(left, float):
        assert np.float64(left).tobytes() == np.float64(right).tobytes()
    else:
        assert left == right


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**130), 2**130)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([torch.ones(2), torch.tensor(3), np.arange(3, dtype=np.uint64)])
)
KEYS = st.integers() | st.text(max_size=3) | st.tuples(st.integers(), st.text(max_size=2))
STATES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(STATES)
def test_any_state_comes_back(state: object) -> None:
    tensors, packed = pack_state(state, "run")
    assert all(name.startswith("run") for name in tensors)
    written = json.dumps(packed, allow_nan=False)
    restored = unpack_state(tensors, json.loads(written))
    if "nan" not in written:  # one NaN is as good as another
        assert_equal_state(restored, state)


def test_keys_that_look_alike_stay_apart(tmp_path: Path) -> None:
    state = {1: torch.ones(1), "1": torch.zeros(1), "a": {"b": torch.ones(2)}, "a/b": torch.ones(3)}
    assert_equal_state(through_a_file(state, tmp_path), state)


def test_what_cannot_be_packed_is_named() -> None:
    with pytest.raises(DeltaAIError, match="state/optimizer/1 is a set, which cannot be packed"):
        pack_state({"optimizer": [0, {1, 2}]})
    with pytest.raises(DeltaAIError, match="state is a ndarray"):
        pack_state(np.array(["text"]))


@pytest.mark.parametrize(
    "packed",
    [{}, {"tensor": "gone"}, {"odd": 1}, {"int": "x"}, {"dict": [1]}, {"a": 1, "b": 2}],
)
def test_what_is_no_packed_state_is_refused(packed: object) -> None:
    with pytest.raises(FormatError, match="cannot be unpacked"):
        unpack_state({}, packed)


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_numpy_generators_continue(tmp_path: Path, kind: str) -> None:
    generator = np.random.Generator(getattr(np.random, kind)(5))
    generator.integers(0, 10, size=3, dtype=np.int32)  # leaves half a draw in the state
    state = through_a_file(generator.bit_generator.state, tmp_path)
    expected = generator.random(100)
    restored = np.random.Generator(getattr(np.random, kind)(0))
    restored.bit_generator.state = state
    assert np.array_equal(restored.random(100), expected)


def test_torch_generators_continue(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(5)
    torch.randn(7, generator=generator)
    state = through_a_file({"generator": generator.get_state()}, tmp_path)
    expected = torch.randn(100, generator=generator)
    restored = torch.Generator()
    restored.set_state(state["generator"])
    assert torch.equal(torch.randn(100, generator=restored), expected)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(8, 3, generator=generator)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda groups: torch.optim.Adam(groups, lr=0.1),
        lambda groups: torch.optim.Adam(groups, lr=torch.tensor(0.1), amsgrad=True, foreach=False),
        lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9),
    ],
    ids=["adam", "adam with all", "sgd"],
)
def test_training_continues_bit_for_bit(tmp_path: Path, make: Callable) -> None:
    def fresh() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        first, last = list(model[0].parameters()), list(model[2].parameters())
        return model, make([{"params": first}, {"params": last, "lr": torch.tensor(0.01).item()}])

    model, optimizer = fresh()
    train(model, optimizer, seed=0)
    tensors, packed = pack_state({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    save_tensors(tmp_path / "run.dai", tensors, {"state": packed}, kind="checkpoint")
    train(model, optimizer, seed=1)

    restored_model, restored_optimizer = fresh()
    tensors, metadata = load_tensors(tmp_path / "run.dai", "checkpoint")
    state = unpack_state(tensors, metadata["state"])
    restored_model.load_state_dict(state["model"])
    restored_optimizer.load_state_dict(state["optimizer"])
    train(restored_model, restored_optimizer, seed=1)

    assert_same(restored_model.state_dict(), model.state_dict())
    assert_equal_state(restored_optimizer.state_dict(), optimizer.state_dict())
