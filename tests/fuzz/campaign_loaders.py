"""Spoilt samplers, checkpoints, logs and results against what loads them.

Some files are damaged, which a checksum finds. Others are forged: whole, with a checksum that is
right, and with content that no version of the library would have written.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

import deltaai as dai
from deltaai.experiments.harness.part_files import FinishedPart, part_path, read_part, write_part
from deltaai.experiments.harness.parts import Part, Row
from deltaai.io.tensor_files import load_tensors, save_tensors
from deltaai.training.metrics_log import MetricsLog
from fuzz.mutations import mutated, mutated_json
from fuzz.watching import refused_or, repeat

STEPS = 2
_MODEL = dai.zoo.random_factor_graph(4, 4, max_arity=2, max_states=3, seed=1)
SAMPLERS: dict[str, dict[str, Any]] = {
    "one": {},
    "many": {"orders": "many"},
    "table": {"family": "table"},
    "mae": {"family": "mae", "hidden": 8},
    "any-evidence": {"evidence": "any"},
    "fixed-evidence": {"evidence": [_MODEL.variables[0].name]},
}
_SMALL: dict[str, Any] = {
    "steps": STEPS,
    "batch_size": 8,
    "evaluate_every": 0,
    "target_ess": None,
    "polish_steps": 0,
    "hidden": 8,
}


def fit_small(kind: str, **more: Any) -> dai.Sampler:
    """Train a sampler of some kind for a moment."""
    return dai.fit(_MODEL, seed=0, **{**_SMALL, **SAMPLERS[kind], **more})


# -- samplers ----------------------------------------------------------------------------------


def damaged_samplers(max_examples: int) -> None:
    """Load samplers whose bytes were changed: only an unchanged one may load."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sampler.dai"
        fit_small("one").save(path)
        valid = path.read_bytes()

        def attempt(content: bytes) -> None:
            path.write_bytes(content)
            sampler = refused_or(dai.load, path)
            assert sampler is None or _is_same(path, valid, folder)

        repeat(st.one_of(mutated((valid,)), st.binary(max_size=200)), max_examples, attempt)


def _is_same(path: Path, valid: bytes, folder: str) -> bool:
    """Whether a file says the same as the valid one, in other bytes (such as spaces) or not."""
    twin = Path(folder) / "valid.dai"
    twin.write_bytes(valid)
    tensors, metadata = load_tensors(path, "sampler")
    others, other_metadata = load_tensors(twin, "sampler")
    same = tensors.keys() == others.keys() and metadata == other_metadata
    return same and all(torch.equal(tensors[name], others[name]) for name in others)


def forged_samplers(kind: str, max_examples: int) -> None:
    """Load samplers with other content, and use those that load."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sampler.dai"
        fit_small(kind).save(path)
        tensors, metadata = load_tensors(path, "sampler")

        def attempt(forged: tuple[dict[str, Tensor], Any]) -> None:
            if refused_or(_store, path, *forged, "sampler"):
                sampler = refused_or(dai.load, path)
                if sampler is not None:
                    use(sampler)

        both = st.tuples(_mutated_tensors(tensors), mutated_json(metadata))
        only_tensors = st.tuples(_mutated_tensors(tensors), st.just(metadata))
        only_metadata = st.tuples(st.just(tensors), mutated_json(metadata))
        repeat(st.one_of(only_metadata, only_metadata, only_tensors, both), max_examples, attempt)


def use(sampler: dai.Sampler) -> None:
    """Ask a sampler everything that it answers."""
    generator = torch.Generator().manual_seed(0)
    first = {variable.name: 0 for variable in sampler.model.variables[:1]}
    x = refused_or(sampler.sample, 3, generator)
    if x is not None:
        refused_or(sampler.log_prob, x)
    refused_or(sampler.log_partition, 20, generator)
    refused_or(sampler.posterior, first, 20, generator)
    refused_or(sampler.residuals, 5, generator)


@st.composite
def _mutated_tensors(draw: st.DrawFn, valid: dict[str, Tensor]) -> dict[str, Tensor]:
    changed = dict(valid)
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(changed)))
        tensor = changed[name]
        match draw(st.integers(0, 11)):
            case 0:
                del changed[name]
            case 1:
                changed[name] = tensor.double() if tensor.is_floating_point() else tensor.float()
            case 2:
                changed[name] = tensor.int()
            case 3:
                changed[name] = tensor.flatten()[: draw(st.integers(0, 2))]
            case 4:
                changed[name] = tensor[None]
            case 5:
                changed[name] = torch.cat((tensor, tensor)) if tensor.ndim else tensor[None]
            case 6:
                changed[name] = torch.zeros_like(tensor)
            case 7 | 8 if tensor.numel():
                value = draw(st.sampled_from((-1, 1, 2, 3, 2**40, -(2**63), 0.5, -1e30)))
                entry = torch.tensor(value, dtype=torch.double).to(tensor.dtype)
                changed[name] = tensor.clone()
                changed[name].view(-1)[draw(st.integers(0, tensor.numel() - 1))] = entry
            case 9:
                odd = draw(st.sampled_from((float("nan"), float("inf"), -float("inf"))))
                changed[name] = torch.full(tensor.shape, odd)
            case 10:
                changed[f"{name}.again"] = tensor
            case 11:
                changed[name] = tensor.bool() if draw(st.booleans()) else tensor.to(torch.bfloat16)
    return changed


def _store(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any], kind: str) -> bool:
    """Write a file with a checksum that is right, unless the format cannot hold the content."""
    copies = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    save_tensors(path, copies, metadata, kind=kind)
    return True


# -- checkpoints, logs and results -------------------------------------------------------------


def _checkpoint(folder: str) -> Path:
    path = Path(folder) / "run.checkpoint"
    fit_small("one", checkpoint=path, checkpoint_every=1)
    return path


def _resume(path: Path, **more: Any) -> dai.Sampler:
    return fit_small("one", checkpoint=path, checkpoint_every=1, resume=True, **more)


def damaged_checkpoints(max_examples: int) -> None:
    """Resume from checkpoints whose bytes were changed."""
    with tempfile.TemporaryDirectory() as folder:
        path = _checkpoint(folder)
        valid = path.read_bytes()

        def attempt(content: bytes) -> None:
            path.write_bytes(content)
            if refused_or(_resume, path) is None:
                assert path.read_bytes() == content  # a refused file is left alone

        repeat(st.one_of(mutated((valid,)), st.binary(max_size=200)), max_examples, attempt)


def forged_checkpoints(max_examples: int) -> None:
    """Resume from checkpoints with other content."""
    with tempfile.TemporaryDirectory() as folder:
        path = _checkpoint(folder)
        tensors, metadata = load_tensors(path, "checkpoint")

        def attempt(forged: tuple[dict[str, Tensor], Any]) -> None:
            if refused_or(_store, path, *forged, "checkpoint"):
                refused_or(_resume, path)

        changed = mutated_json(metadata["state"]).map(lambda state: {**metadata, "state": state})
        anywhere = st.one_of(changed, changed, mutated_json(metadata))
        both = st.tuples(_mutated_tensors(tensors), anywhere)
        only_tensors = st.tuples(_mutated_tensors(tensors), st.just(metadata))
        only_metadata = st.tuples(st.just(tensors), anywhere)
        repeat(st.one_of(only_metadata, only_metadata, only_tensors, both), max_examples, attempt)


def spoilt_logs(suffix: str, max_examples: int) -> None:
    """Continue logs of training that are not what was written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log{suffix}"
        with MetricsLog(path) as log:
            for step in range(4):
                log.append({"step": step, "loss": 0.5 / (step + 1), "word": "a,b", "ess": None})
        valid = path.read_bytes()

        def continue_log() -> int:
            with MetricsLog(path, resume_from_step=2) as log:
                log.append({"step": 3, "loss": 0.1, "new": float("nan")})
                return len(log.rows)

        def attempt(content: bytes) -> None:
            path.write_bytes(content)
            if refused_or(continue_log) is None:
                assert path.read_bytes() == content
            assert [found.name for found in Path(folder).iterdir()] == [path.name]

        repeat(st.one_of(mutated((valid,)), st.binary(max_size=200)), max_examples, attempt)


def spoilt_parts(max_examples: int) -> None:
    """Read finished parts of an experiment that are not what was written."""
    part = Part("ladder", "delta", 0, "smoke", {"steps": 10, "rate": 0.1, "word": "a"})
    rows = tuple(Row(step, 0.5 * step, "nll", 3.25 - step) for step in range(3))
    with tempfile.TemporaryDirectory() as folder:
        path = part_path(Path(folder), part)
        path.parent.mkdir()
        write_part(Path(folder), FinishedPart("figure", part, rows, 1.5, 2, "a machine"))
        valid = path.read_bytes()

        def attempt(content: bytes) -> None:
            path.write_bytes(content)
            found = refused_or(read_part, path)
            if found is not None:
                check_part(found)

        repeat(st.one_of(mutated((valid,)), st.binary(max_size=200)), max_examples, attempt)


def check_part(found: FinishedPart) -> None:
    """Check that a part that was read holds what its types say."""
    assert isinstance(found.experiment, str)
    assert isinstance(found.machine, str)
    assert type(found.jobs) is int
    assert type(found.seconds) in {int, float}
    assert type(found.part.seed) is int
    for name, value in found.part.settings:
        assert isinstance(name, str)
        assert isinstance(value, str | int | float | bool)
    for row in found.rows:
        assert isinstance(row.metric, str)
        assert type(row.step) is int
