"""Models in ``.dai`` files: what was written is what is read, and every door says what it takes."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import deltaai as dai
from deltaai.cli.completion import read_states
from deltaai.io import load_tensors, register_format, save_tensors

MIXED = dai.FactorGraph(
    [dai.Variable("größe", ["<1.5", ">=1.5"]), dai.Variable("b"), dai.Variable("c", 3)],
    [
        dai.TableFactor(["c", "größe"], [[0.1, -np.inf], [0.3, -0.4], [1 / 3, 0.0]]),
        dai.SpinCoupling("größe", "b", 0.2),
        dai.ConditionalTable("b", ["c"], [[0.1, 0.9], [0.5, 0.5], [1.0, 0.0]]),
    ],
)


def test_a_model_comes_back_bit_for_bit(tmp_path):
    for model in (MIXED, dai.example("asia"), dai.zoo.ising_lattice(side=3, sigma=0.4, seed=0)):
        path, again = tmp_path / "m.dai", tmp_path / "again.dai"
        dai.write(model, path)
        found = dai.read(path)
        assert found.variables == model.variables
        assert found.content_hash() == model.content_hash()
        for mine, theirs in zip(found.groups, model.groups, strict=True):
            assert type(mine) is type(theirs)
            assert torch.equal(mine.scopes, theirs.scopes)
        dai.write(found, again)
        assert again.read_bytes() == path.read_bytes()
    assert read_states(path)["x_0_0"] == ["0", "1"]


def test_every_command_that_takes_a_model_takes_the_file(run, tmp_path):
    path = tmp_path / "m.dai"
    dai.write(dai.example("asia"), path)
    for words in (["plan", path], ["check", path], ["sample", path, "-n", 2]):
        code, _, err = run(*words, "--json")
        assert (code, err) == (0, "")
    code, out, _ = run("query", path, "-e", "smoke=yes", "--of", "lung", "--json")
    assert (code, json.loads(out)["status"]) == (0, "exact")
    wanted = dai.query("asia", {"smoke": "yes"}).marginals["lung"]
    np.testing.assert_allclose(dai.query(path, {"smoke": "yes"}).marginals["lung"], wanted)
    assert dai.fit(str(path), smoothing=1e-3, steps=1).model.num_variables == 8


def test_models_and_samplers_are_told_apart(run, tmp_path):
    model, sampler = tmp_path / "m.dai", tmp_path / "s.dai"
    dai.write(dai.example("sprinkler"), model)
    lattice = dai.zoo.ising_lattice(side=2, sigma=0.2, seed=0)
    dai.fit(lattice, steps=1).save(sampler)
    with pytest.raises(dai.FormatError, match=r"holds a 'model'.*a model is read with read"):
        dai.load(model)
    with pytest.raises(dai.FormatError, match=r"holds a 'sampler'.*a sampler is read with load"):
        dai.read(sampler)
    code, _, err = run("plan", sampler)
    assert (code, err.count("\n")) == (2, 1)
    assert dai.query(sampler, num_samples=500).ess


def test_what_is_no_such_file_is_refused(tmp_path):
    path = tmp_path / "m.dai"
    with pytest.raises(dai.FormatError, match="there is no such file"):
        dai.read(path)
    with pytest.raises(dai.FormatError, match="there is no such file"):
        dai.query(path)
    path.write_text("MARKOV\n1\n2\n0\n")
    with pytest.raises(dai.FormatError, match="not a safetensors file"):
        dai.query(path)
    dai.write(MIXED, path)
    tensors, metadata = load_tensors(path, "model")
    for change in ({}, {"model": {}}, {"model": {**metadata["model"], "groups": ["neural"]}}):
        save_tensors(path, tensors, change, kind="model")
        with pytest.raises(dai.FormatError, match="the model in it is incomplete"):
            dai.read(path)
    with pytest.raises(dai.FormatError, match="unknown kind of file"):
        dai.write(MIXED, tmp_path / "m.dai.gz")
    with pytest.raises(dai.ConfigError, match="are no text"):
        register_format(".dai", lambda source: MIXED, replace=True)


def test_networks_cannot_be_stored(tmp_path):
    names = [f"x{k}" for k in range(16)]
    factor = dai.NeuralFactor(names, nn.Linear(16, 1))
    model = dai.FactorGraph([dai.Variable(name) for name in names], [factor])
    with pytest.raises(dai.ConversionError, match=r"neural factor .* cannot be stored"):
        dai.write(model, tmp_path / "m.dai")
    assert not list(tmp_path.iterdir())
