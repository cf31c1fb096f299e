"""No answer rests on NaN, on infinity, or on logarithms without digits and calls itself exact."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import deltaai as dai
from deltaai.errors import OutputError

pytestmark = pytest.mark.usefixtures("as_a_user_runs_it")


def pair(*factors, **more):
    return dai.FactorGraph([dai.Variable("a"), dai.Variable("b")], factors, **more)


class Times(nn.Module):
    """A network that is broken, or has run away."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(torch.tensor(1.0))

    def forward(self, features):
        return features.sum(-1) * self.factor


@pytest.mark.parametrize("factor", [math.nan, math.inf, -math.inf, 1e308, 1e13])
def test_networks_that_give_no_numbers_are_refused_by_every_answer(factor):
    model = pair(dai.NeuralFactor(["a", "b"], Times(factor)))
    for ask in (
        lambda: dai.query(model),
        lambda: dai.query(model, method="bp"),
        lambda: dai.query_table(model, [{}, {"a": 1}]),
        lambda: dai.exact(model).log_partition(),
        lambda: dai.exact(model).map(),
        lambda: dai.exact(model).sample(2),
        lambda: dai.exact(model).log_prob(torch.tensor([[0, 1]])),
    ):
        with pytest.raises(dai.ModelError, match=r"factor 0 over \(a, b\) is .* at some states"):
            ask()


@pytest.mark.parametrize("large", [1e308, -1e308, 1e13])
def test_logarithms_that_leave_no_digits_are_refused(large):
    with pytest.raises(dai.ModelError, match=r"factor 0 over \(a\) has an entry beyond 1e\+12"):
        pair(dai.TableFactor(["a"], [large, 0.0]), dai.TableFactor(["a"], [large, 0.0]))
    with pytest.raises(dai.ModelError, match=r"its strength is .*, not a number up to 1e12"):
        pair(dai.SpinField("a", large))
    with pytest.raises(dai.ModelError, match=r"sigma must be"):
        dai.zoo.ising_lattice(3, large, 0)


def test_unlikely_is_not_impossible():
    model = pair(dai.TableFactor(["a", "b"], [[0.0, -1e11], [-math.inf, -1e11]]))
    answer = dai.query(model, {"a": 1})
    assert (answer.status, answer.log_partition) == ("exact", -1e11)
    assert answer.marginals["b"].tolist() == [0.0, 1.0]


def test_tables_that_are_learned_can_be_asked():
    table = torch.tensor([[0.5, 0.0], [0.0, 0.25]], dtype=torch.float64, requires_grad=True)
    learned, fixed = (pair(dai.TableFactor(["a", "b"], t)) for t in (table, table.detach()))
    assert dai.query(learned).log_partition == dai.query(fixed).log_partition
    found = [dai.query_table(m, [{"a": 1}]).probabilities.tolist() for m in (learned, fixed)]
    assert found[0] == found[1]
    assert dai.exact(learned).map().labels == {"a": "0", "b": "0"}


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.uint16, torch.int32])
def test_rows_of_any_whole_numbers(kind):
    model = dai.zoo.sprinkler()
    rows = torch.tensor([[0, 1, 1, 1]])
    found = [dai.query_table(model, r).log_partition.tolist() for r in (rows, rows.to(kind))]
    assert found[0] == found[1]
    with pytest.raises(dai.EvidenceError, match="no states"):
        dai.query_table(model, torch.tensor([[0, 1, 1, 100]]).to(kind))
    with pytest.raises(dai.EvidenceError, match="no states"):  # 255 is not -1
        dai.query_table(model, torch.tensor([[0, 1, 1, 255]], dtype=torch.uint8))


def test_tensors_without_values_are_refused():
    model = dai.zoo.sprinkler()
    ghost = torch.zeros(1, 4, dtype=torch.long, device="meta")
    with pytest.raises(dai.StateError, match="sparse or meta"):
        model.log_score(ghost)
    with pytest.raises(dai.EvidenceError, match="give integers"):
        dai.query_table(model, ghost)
    with pytest.raises(dai.ModelError, match="not an array of numbers"):
        dai.TableFactor(["a"], torch.zeros(2, device="meta"))


def test_samples_that_no_memory_holds_are_refused():
    with pytest.raises(dai.NotAffordableError, match="draw fewer at a time"):
        dai.exact(dai.zoo.sprinkler(), memory_limit="1GB").sample(10**9)


def test_names_that_no_file_holds(tmp_path):
    for name, states in (("\udcff", ["0", "1"]), ("v", ["\udcff", "b"])):
        table = dai.ConditionalTable(name, [], [0.25, 0.75])
        model = dai.FactorGraph([dai.Variable(name, states)], [table])
        with pytest.raises(dai.ConversionError, match=r"rename it"):
            dai.write(model, tmp_path / "m.bif")
        assert not list(tmp_path.iterdir())
        assert dai.query(model).marginals[name].tolist() == [0.25, 0.75]
    with pytest.raises(dai.ConversionError, match="rename it"):
        dai.to_pyagrum(model)


def test_nothing_has_samples_too():
    nothing = dai.FactorGraph([], [])
    assert dai.exact(nothing).sample(3).shape == (3, 0)
    assert dai.exact(nothing).sample(3, as_frame=True).shape == (3, 0)


def test_a_log_on_a_full_disk_is_called_that(tmp_path):
    resource = pytest.importorskip("resource")
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path = tmp_path / "log.jsonl"
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        with pytest.raises(OutputError, match=r"log\.jsonl: File too large"):
            dai.fit(
                pair(dai.TableFactor(["a", "b"], np.eye(2))),
                steps=100,
                metrics=path,
                evaluate_every=1,
                evaluation_samples=10,
                target_ess=None,
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.stat().st_size <= 2000
