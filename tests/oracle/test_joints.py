"""Joint marginals against enumeration: exact ones, sampled ones with their errors."""

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.errors import ConfigError, EvidenceError, ImpossibleEvidenceError, NotAffordableError
from deltaai.exact import joint_marginal
from deltaai.trust.joints import sampled_joint
from deltaai.trust.weighted import WeightedSamples


def enumerated(model, names, evidence):
    """The joint marginal by summing over all states."""
    axes = [torch.arange(variable.num_states) for variable in model.variables]
    x = torch.cartesian_prod(*axes).view(-1, model.num_variables)
    weight = model.log_score(x).exp()
    for variable, state in model.resolve_evidence(evidence).items():
        weight = weight * (x[:, variable] == state)
    columns = [model.index(name) for name in names]
    table = np.zeros([model.variables[v].num_states for v in columns])
    np.add.at(table, tuple(x[:, columns].T.numpy()), weight.numpy())
    return table / table.sum()


@pytest.mark.parametrize("seed", range(3))
def test_exact_joints_are_those_of_enumeration(seed):
    model = dai.zoo.random_factor_graph(
        7, num_factors=9, max_arity=3, max_states=3, scale=1.0, seed=seed
    )
    names = [variable.name for variable in model.variables]
    keys = [("x0", "x1"), ("x2", "x0"), ("x5", "x2", "x4", "x3"), ("x5",)]
    for evidence in ({}, {names[0]: 0, names[3]: 0}):
        answer = dai.query(model, evidence, of=keys)
        for key in keys:
            expected = enumerated(model, key, evidence)
            np.testing.assert_allclose(answer.marginals[key], expected, atol=1e-12)


def test_exact_joints_with_zeros_and_beside_single_ones():
    model = dai.example("asia")
    key = ("dysp", "either", "lung")
    answer = dai.query(model, {"xray": "yes"}, of=["tub", key, "tub"])
    assert list(answer.marginals) == ["tub", key]
    assert answer.status == "exact"
    expected = enumerated(model, key, {"xray": "yes"})
    np.testing.assert_allclose(answer.marginals["dysp", "either", "lung"], expected, atol=1e-12)
    assert expected.min() == 0.0


def test_sampled_joints_hold_the_truth_within_their_errors():
    model = dai.zoo.ising_lattice(side=3, sigma=0.4, seed=1)
    sampler = dai.fit(model, steps=50)
    keys = [("x_0_0", "x_2_2"), ("x_1_1", "x_1_2", "x_2_1"), ("x_0_0", "x_0_1")]
    for evidence in ({}, {"x_0_0": 1, "x_2_0": 0}):
        answer = dai.query(sampler, evidence, of=keys)
        for key in keys:
            found = answer.marginals.estimate(key)
            expected = joint_marginal(model, key, evidence)
            away = np.abs(found.value - expected)
            assert (away <= 4.5 * found.stderr).all(), (key, found.value, expected)
            assert found.stderr.max() < 0.02
            assert (found.stderr[expected == 0] == 0).all()  # the evidence rules it out


def test_errors_of_sampled_joints_have_the_right_size():
    """Over many repetitions the spread of the estimates is what their errors say."""
    model = dai.zoo.ising_lattice(side=2, sigma=0.5, seed=0)
    x = torch.cartesian_prod(*[torch.arange(2)] * 4)
    log_p = model.log_score(x).double()
    for group_size in (1, 4):
        means, errors = [], []
        for seed in range(300):
            generator = torch.Generator().manual_seed(seed)
            drawn = torch.randint(16, (4000,), generator=generator)
            samples = WeightedSamples(model, x[drawn], log_p[drawn], {}, group_size)
            mean, error = sampled_joint(samples, ["x_0_0", "x_1_1"])
            means.append(mean)
            errors.append(error)
        ratio = np.mean(errors, axis=0) / np.std(means, axis=0)
        assert ((ratio > 0.9) & (ratio < 1.3)).all(), ratio


def test_a_joint_state_that_no_sample_hit_is_not_certain():
    model = dai.zoo.ising_lattice(side=2, sigma=0.5, seed=0)
    x = torch.zeros(50, 4, dtype=torch.long)
    samples = WeightedSamples(model, x, torch.zeros(50, dtype=torch.float64), {3: 0})
    mean, error = sampled_joint(samples, ["x_0_0", "x_1_1"])
    assert mean.round(12).tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert error[1, 0] == pytest.approx(1 / 50)  # one sample in fifty may have been missed
    assert error[:, 1].tolist() == [0.0, 0.0]  # the evidence says so


def test_joints_of_a_question_that_is_answered_by_a_sampler():
    model = dai.example("asia")  # zeros and evidence fix some of the variables
    key = ("lung", "either", "smoke")
    answer = dai.query(model, {"tub": "yes"}, of=[key], method="sampler", time_limit=5)
    found = answer.marginals.estimate(key)
    expected = joint_marginal(model, key, {"tub": "yes"})
    assert (np.abs(found.value - expected) <= 5 * found.stderr + 1e-9).all()
    assert found.value[:, 1].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_joints_where_there_is_no_good_way_are_refused():
    model = dai.example("asia")
    with pytest.raises(ConfigError, match="a table of cases gives no joint marginals"):
        dai.query(model, [{}], of=[("lung", "tub")])
    with pytest.raises(ConfigError, match="belief propagation gives no joint marginals"):
        dai.query(model, of=[("lung", "tub")], method="bp")
    with pytest.raises(EvidenceError, match="each once"):
        dai.query(model, of=[("lung", "lung")])
    with pytest.raises(EvidenceError, match="no variable 'lunk' in the model; did you mean 'lung'"):
        dai.query(model, of=[("lunk", "tub")])
    with pytest.raises(ImpossibleEvidenceError):
        joint_marginal(model, ["xray"], {"either": "no", "lung": "yes"})
    grid = dai.example("grid")
    with pytest.raises(NotAffordableError, match="131,072 entries, and 65,536 are the most"):
        dai.query(grid, of=[tuple(variable.name for variable in grid.variables[:17])])
