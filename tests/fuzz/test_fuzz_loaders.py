"""Loaders of samplers, checkpoints, logs and results: what is not right is refused, in one line."""

import pytest
import torch

import deltaai as dai
from deltaai.errors import FormatError
from deltaai.io.tensor_files import load_tensors, save_tensors
from fuzz import campaign_loaders as campaign
from fuzz.watching import in_bare_process

KINDS = tuple(campaign.SAMPLERS)


def test_damaged_samplers():
    campaign.damaged_samplers(100)


@pytest.mark.parametrize("kind", KINDS)
def test_forged_samplers(kind):
    campaign.forged_samplers(kind, 20)


def test_forged_samplers_without_type_checks():
    in_bare_process("campaign_loaders", "forged_samplers('one', 40)")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_forged_samplers_without_type_checks(kind):
    in_bare_process("campaign_loaders", f"forged_samplers({kind!r}, 800)", seconds=600)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path, value):
    path = tmp_path / "sampler.dai"
    campaign.fit_small("one").save(path)
    tensors, metadata = load_tensors(path, "sampler")
    name = next(n for n, t in tensors.items() if n.startswith("q.") and t.numel())
    tensors[name] = torch.full_like(tensors[name], value)
    save_tensors(path, tensors, metadata, kind="sampler")
    with pytest.raises(FormatError, match="not finite"):
        dai.load(path)


def test_claims_of_a_sampler_take_no_memory(tmp_path):
    path = tmp_path / "sampler.dai"
    campaign.fit_small("one").save(path)
    tensors, metadata = load_tensors(path, "sampler")
    variables = [[name, 10**9] for name, _ in metadata["model"]["variables"]]
    for forged in (
        {**metadata, "spec": {**metadata["spec"], "hidden": 10**9}},
        {**metadata, "model": {**metadata["model"], "variables": variables}},
    ):
        save_tensors(path, tensors, forged, kind="sampler")
        with pytest.raises(FormatError, match="another version"):
            dai.load(path)


def test_damaged_checkpoints():
    campaign.damaged_checkpoints(40)


def test_forged_checkpoints():
    campaign.forged_checkpoints(30)


@pytest.mark.slow
def test_forged_checkpoints_without_type_checks():
    in_bare_process("campaign_loaders", "forged_checkpoints(2000)", seconds=600)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_spoilt_logs(suffix):
    campaign.spoilt_logs(suffix, 100)


def test_spoilt_parts_of_experiments():
    campaign.spoilt_parts(150)


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        "damaged_samplers(5000)",
        "damaged_checkpoints(3000)",
        "spoilt_logs('.csv', 5000)",
        "spoilt_logs('.jsonl', 5000)",
        "spoilt_parts(10_000)",
    ],
)
def test_many_spoilt_files_without_type_checks(call):
    in_bare_process("campaign_loaders", call, seconds=600)
