"""Models with real variables in ``.dai`` files, and what a file cannot hold."""

import json

import pytest
import torch

import deltaai as dai
from deltaai.io import load_tensors, save_tensors


def model():
    variables = [
        dai.Variable("x", support="line"),
        dai.Variable("s", ["no", "ja"]),
        dai.Variable("knee", support=(-1, 1), dimension=3),
        dai.Variable("time", support=(0, None)),
        dai.Variable("below", support=(None, 2.5)),
    ]
    parts = [dai.GaussianFactor("x", -2.0, 1.0), dai.GaussianFactor("x", 2.0, 0.5)]
    return dai.FactorGraph(
        variables,
        [
            dai.LinearGaussian("x", given=["s"], bias=[0.0, 1.0], scale=[1.0, 2.0]),
            dai.QuadraticFactor(["time", "below"], [[1.0, 0.5], [0.5, 2.0]], [0.1, 1 / 3], 0.7),
            dai.GaussianFactor("knee", [0.0, 0.1, 0.2], torch.eye(3)),
            dai.MixtureFactor(parts, [0.1, 0.2]),
            dai.TableFactor(["s"], [0.0, -torch.inf]),
            dai.SpinField("s", 0.3),
        ],
    )


def test_a_model_comes_back_bit_for_bit(tmp_path):
    path, again = tmp_path / "field.dai", tmp_path / "again.dai"
    for given in (model(), model().condition({"knee[1]": 0.3}), model().to(dtype=torch.float32)):
        dai.write(given, path)
        found = dai.read(path)
        assert found.variables == given.variables
        assert found.nodes == given.nodes
        assert found.content_hash() == given.content_hash()
        assert found.dtype == given.dtype
        dai.write(found, again)
        assert again.read_bytes() == path.read_bytes()


def test_the_command_line_takes_the_file(run, tmp_path):
    path = tmp_path / "walk.dai"
    x, y = dai.Variable("x", support="line"), dai.Variable("y", support="line")
    walk = [dai.LinearGaussian("x", bias=1.0), dai.LinearGaussian("y", ["x"], [1.0])]
    dai.write(dai.FactorGraph([x, y], walk), path)
    code, out, err = run("query", path, "-e", "x=1.3", "--of", "y", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["status"] == "exact"
    assert found["marginals"]["y"]["mean"] == pytest.approx(1.3)
    assert found["marginals"]["y"]["deviation"] == pytest.approx(1.0)
    for words in (["plan", path], ["check", path]):
        code, _, err = run(*words, "--json")
        assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("factor", "kind"),
    [
        (dai.FunctionFactor(["x", "time"], lambda v: -v.square().sum(1)), "a function"),
        (dai.NeuralFactor(["x", "s"], torch.nn.Linear(2, 1)), "a network"),
    ],
)
def test_code_is_refused_in_a_line(tmp_path, factor, kind):
    given = dai.FactorGraph(model().variables, [factor])
    with pytest.raises(dai.ConversionError, match=kind) as caught:
        dai.write(given, tmp_path / "m.dai")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "m.dai").exists()


@pytest.mark.parametrize("name", ["m.uai", "m.bif"])
def test_formats_of_tables_are_refused_in_a_line(tmp_path, name):
    with pytest.raises(dai.DeltaAIError, match="real") as caught:
        dai.write(model(), tmp_path / name)
    assert "\n" not in str(caught.value)


def spoilt(tensors, described, change):
    change(tensors, described["model"])


@pytest.mark.parametrize(
    "change",
    [
        lambda t, m: m["variables"][0].__setitem__(
            1, {"support": {"low": 2, "high": 1}, "node": "x"}
        ),
        lambda t, m: m["variables"][0].__setitem__(1, {"support": {"low": "a"}, "node": "x"}),
        lambda t, m: m["variables"][0].__setitem__(1, {"support": {}, "node": 3}),
        lambda t, m: m["variables"][0].__setitem__(1, {"support": {}}),
        lambda t, m: m["variables"][0].__setitem__(1, {"support": {"up": 1}, "node": "x"}),
        lambda t, m: m["variables"][0].__setitem__(1, ["a", "b"]),
        lambda t, m: t.__setitem__("model.0.values", t["model.0.values"] * torch.nan),
        lambda t, m: t.__setitem__("model.0.shift", t["model.0.shift"][:, :1]),
        lambda t, m: t.__setitem__("model.0.constant", t["model.0.constant"].long()),
        lambda t, m: t.pop("model.0.constant"),
        lambda t, m: t.__setitem__("model.0.scopes", t["model.0.scopes"] + 90),
        lambda t, m: t.__setitem__("model.0.scopes", t["model.0.scopes"][:0]),
        lambda t, m: m["groups"].__setitem__(0, "table"),
    ],
)
def test_spoilt_files_are_refused_in_a_line(tmp_path, change):
    path, bad = tmp_path / "m.dai", tmp_path / "bad.dai"
    dai.write(model(), path)
    tensors, metadata = load_tensors(path, "model")
    change(tensors, metadata["model"])
    save_tensors(bad, tensors, {"model": metadata["model"]}, kind="model")
    with pytest.raises(dai.DeltaAIError) as caught:
        dai.read(bad)
    assert "\n" not in str(caught.value)
