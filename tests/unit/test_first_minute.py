"""What a newcomer sees: objects that show themselves, samples with labels, pictures."""

import sys

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.errors import DeltaAIError, ModelError
from deltaai.trust.pictures import MOST_VARIABLES

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def sampler():
    return dai.fit(dai.zoo.ising_lattice(side=3, sigma=0.2, seed=0), steps=60)


@pytest.fixture
def hostile_model():
    variables = [dai.Variable(HOSTILE, [HOSTILE, "$x_{1}$"]), dai.Variable("b")]
    factor = dai.TableFactor.from_values([HOSTILE, "b"], [[1.0, 2.0], [3.0, 4.0]])
    return dai.FactorGraph(variables, [factor])


def shown_objects(model):
    answer = dai.query(model, {"b": 1}, progress=False)
    fitted = dai.fit(model, steps=5)
    return [
        model,
        answer,
        answer.partition,
        answer.marginals,
        answer.marginals.estimate(model.variables[0].name),
        dai.plan(model),
        dai.exact(model),
        dai.query(model, [{"b": 0}, {}]),
        fitted,
        dai.query(fitted, num_samples=50),
    ]


def test_everything_shows_itself_shortly_and_escapes_names(hostile_model):
    for shown in shown_objects(hostile_model):
        html, text = shown._repr_html_(), repr(shown)
        assert "<script>" not in html, type(shown)
        assert html.startswith("<table>"), type(shown)
        assert 5 < len(text) < 2000, type(shown)
        assert "object at 0x" not in text
        assert "array(" not in text


def test_an_answer_says_value_error_and_status(sampler):
    text = str(dai.query(sampler, {"x_0_0": 1}, of=["x_1_1", ("x_0_1", "x_2_2")]))
    found = dai.query(sampler, {"x_0_0": 1}).partition
    assert text.splitlines()[0].endswith(f": {found.status}")
    assert f"log Z              {float(found):.9g} ± {found.stderr:.2g}" in text
    assert "P(x_1_1)           0: 0." in text
    assert "P(x_0_1, x_2_2)    (0, 0): 0." in text
    assert " ± 0.0" in text


def test_an_untrusted_answer_shows_its_doubts():
    poor = dai.fit(dai.zoo.ising_lattice(side=6, sigma=2.0, seed=0), steps=2)
    answer = dai.query(poor, num_samples=500)
    assert answer.status == "untrusted"
    for doubt in answer.doubts:
        assert f"not to be trusted: {doubt}" in repr(answer)
    assert "<b>not to be trusted</b>" in answer._repr_html_()


def test_an_exact_answer_shows_labels():
    answer = dai.query(dai.example("asia"), {"smoke": "yes"}, of=["lung"])
    assert "log Z    -0.693147181" in repr(answer)
    assert "P(lung)  yes: 0.1, no: 0.9" in repr(answer)
    assert repr(answer.partition) == "-0.693147181 (exact)"
    assert repr(answer.marginals) == "Marginals (exact)\n  P(lung)  yes: 0.1, no: 0.9"


def test_long_answers_are_cut():
    text = repr(dai.query(dai.example("grid")))
    assert "and 90 more" in text
    assert len(text.splitlines()) < 15


def test_a_sampler_knows_how_good_it_is_without_being_saved(sampler):
    fresh = dai.fit(sampler.model, steps=5)
    assert "log Z" not in repr(fresh)  # showing it computes nothing
    found = fresh.diagnostics
    assert found["status"] in {"estimated", "unchecked", "untrusted"}
    assert found["log_partition"] == pytest.approx(dai.exact(fresh.model).log_partition(), abs=0.5)
    assert fresh.diagnostics is found  # once is enough
    assert "log Z" in repr(fresh)


def test_samples_come_as_a_labelled_frame(sampler):
    model = dai.example("asia")
    engine = dai.exact(model, {"smoke": "yes"})
    frame = engine.sample(50, torch.Generator().manual_seed(0), as_frame=True)
    x = engine.sample(50, torch.Generator().manual_seed(0))
    assert list(frame.columns) == [variable.name for variable in model.variables]
    assert set(frame["smoke"]) == {"yes"}
    assert list(frame["lung"].cat.categories) == ["yes", "no"]
    for column, variable in enumerate(model.variables):
        assert frame[variable.name].cat.codes.tolist() == x[:, column].tolist()
    drawn = sampler.sample(4, torch.Generator().manual_seed(0), as_frame=True)
    plain = sampler.sample(4, torch.Generator().manual_seed(0))
    assert drawn.astype(int).to_numpy().tolist() == plain.tolist()
    given = sampler.sample(4, evidence={"x_1_1": 1}, as_frame=True)
    assert set(given["x_1_1"]) == {"1"}
    assert sampler.sample(0, as_frame=True).shape == (0, 9)


def test_pictures_show_what_is_there(sampler, hostile_model, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    answer = dai.query(sampler, of=["x_0_0", ("x_0_1", "x_2_2")])
    axes = answer.plot()
    heights = [bar.get_width() for bar in axes.patches]
    expected = [*answer.marginals["x_0_0"], *answer.marginals["x_0_1", "x_2_2"].flat]
    np.testing.assert_allclose(heights, expected)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[0] == "x_0_0 = 0"
    assert labels[2] == "x_0_1, x_2_2 = (0, 0)"
    assert axes.get_title() == answer.status

    many = dai.query(dai.example("grid")).plot()
    assert len(many.patches) == 2 * MOST_VARIABLES
    assert "75 more" in many.get_title()

    drawn = dai.example("asia").plot()
    names = {text.get_text() for text in drawn.texts}
    assert {"asia", "dysp"} <= names
    assert len([text for text in drawn.texts if getattr(text, "arrow_patch", None)]) == 8

    given = pyplot.figure().subplots()
    assert dai.example("grid").plot(given) is given
    assert len(given.lines) == 180
    for model in (hostile_model, dai.FactorGraph([dai.Variable("$a_$")], [])):
        model.plot().figure.canvas.draw()
    dai.query(hostile_model).plot().figure.canvas.draw()
    pyplot.close("all")


def test_a_model_too_large_to_draw_is_refused():
    with pytest.raises(ModelError, match="the model has 2500 variables, and 1 to 2000 can be"):
        dai.zoo.ising_lattice(side=50, sigma=0.2, seed=0).plot()


def test_a_missing_extra_is_one_line(monkeypatch, sampler):
    for module in ("pandas", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        DeltaAIError, match=r"^tables need pandas: pip install 'deltaai\[tables\]'$"
    ):
        sampler.sample(2, as_frame=True)
    line = r"^plots need matplotlib: pip install 'deltaai\[plots\]'$"
    with pytest.raises(DeltaAIError, match=line):
        dai.example("asia").plot()
    with pytest.raises(DeltaAIError, match=line):
        dai.query(dai.example("asia")).plot()
