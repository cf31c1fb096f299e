"""Gaussian fields against dense linear algebra, and against one worked by hand."""

import math

import numpy as np
import pytest
import scipy
import scipy.sparse as sparse

from deltaai.errors import (
    ConfigError,
    DeltaAIError,
    MemoryLimitError,
    ModelError,
    NotAffordableError,
    StateError,
)
from deltaai.exact.gaussian.field import GaussianField
from deltaai.exact.gaussian.fill import fill_order, gaussian_cost, gaussian_elimination
from deltaai.exact.gaussian.precision import checked_precision
from deltaai.exact.gaussian.selected_inverse import blocks_of, clique_covariances
from deltaai.graphs import UndirectedGraph, eliminate

TOLERANCE = 1e-10


def from_edges(num_variables, edges, rng):
    """A positive definite matrix with this pattern: a sum of squares over edges, and a ridge."""
    matrix = np.diag(rng.uniform(0.2, 2.0, num_variables))
    for first, second in edges:
        weights = rng.normal(size=2)
        pair = np.ix_([first, second], [first, second])
        matrix[pair] += np.outer(weights, weights)
    return matrix


def grid_edges(side):
    across = [(r * side + c, r * side + c + 1) for r in range(side) for c in range(side - 1)]
    return across + [
        (r * side + c, r * side + side + c) for r in range(side - 1) for c in range(side)
    ]


def cases():
    rng = np.random.default_rng(0)
    tree = [(int(rng.integers(0, v)), v) for v in range(1, 25)]
    yield "tree", from_edges(25, tree, rng)
    yield "chain", from_edges(30, [(v, v + 1) for v in range(29)], rng)
    yield "grid", from_edges(49, grid_edges(7), rng)
    yield "disconnected", from_edges(12, [(0, 5), (5, 7), (2, 3), (8, 9), (9, 10), (8, 10)], rng)
    yield "one", np.array([[4.0]])
    yield "unjoined", np.diag([1.0, 2.0, 3.0])
    yield "dense", from_edges(8, [(a, b) for a in range(8) for b in range(a)], rng)
    yield "star", from_edges(20, [(7, v) for v in range(20) if v != 7], rng)
    units = np.diag(10.0 ** rng.uniform(-6, 6, 16))
    yield "units", units @ from_edges(16, grid_edges(4), rng) @ units
    for seed in range(6):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(2, 30))
        pairs = rng.integers(0, count, (count, 2))
        yield (
            f"random-{seed}",
            from_edges(count, [(a, b) for a, b in pairs.tolist() if a != b], rng),
        )


CASES = list(cases())


@pytest.fixture(params=CASES, ids=[name for name, _ in CASES])
def case(request):
    _, matrix = request.param
    rng = np.random.default_rng(1)
    shift = rng.normal(size=len(matrix)) * np.sqrt(np.diag(matrix))
    return matrix, shift, GaussianField(sparse.csr_matrix(matrix), shift, 0.7)


def dense_log_partition(matrix, shift, constant):
    _, log_determinant = np.linalg.slogdet(matrix)
    half = 0.5 * shift @ np.linalg.solve(matrix, shift)
    return constant + half + 0.5 * (len(matrix) * math.log(2 * math.pi) - log_determinant)


def relative(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_log_partition_means_and_variances(case):
    matrix, shift, field = case
    covariance = np.linalg.inv(matrix)
    assert field.log_partition() == pytest.approx(
        dense_log_partition(matrix, shift, 0.7), rel=1e-10
    )
    deviations = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(
        field.means() / deviations, covariance @ shift / deviations, atol=1e-8
    )
    relative(field.variances(), covariance.diagonal())


def test_covariances(case):
    matrix, _, field = case
    chosen = [len(matrix) - 1, 0] if len(matrix) > 1 else [0]
    expected = np.linalg.inv(matrix)[np.ix_(chosen, chosen)]
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    np.testing.assert_allclose(field.covariance(chosen) / scale, expected / scale, atol=1e-9)


def test_cliques_hold_covariances_of_all_neighbours(case):
    matrix, _, field = case
    expected, covered = np.linalg.inv(matrix), np.eye(len(matrix), dtype=bool)
    deviations = np.sqrt(expected.diagonal())
    for clique, covariance, count in clique_covariances(field.factor, field.elimination):
        pair = np.ix_(clique, clique)
        covered[pair] = True
        scale = np.outer(deviations[list(clique)], deviations[list(clique)])
        np.testing.assert_allclose(covariance / scale, expected[pair] / scale, atol=1e-8)
        assert 0 < count <= len(clique)
    assert covered[matrix != 0].all()


def test_densities(case):
    matrix, shift, field = case
    x = np.random.default_rng(2).normal(size=(5, len(matrix))) / np.sqrt(np.diag(matrix))
    expected = 0.7 + x @ shift - 0.5 * np.einsum("bi,ij,bj->b", x, matrix, x)
    np.testing.assert_allclose(field.log_density(x), expected, rtol=1e-9)
    if np.linalg.cond(matrix) < 1e8:
        peer = scipy.stats.multivariate_normal(field.means(), np.linalg.inv(matrix))
        np.testing.assert_allclose(field.log_prob(x), np.atleast_1d(peer.logpdf(x)), rtol=1e-8)
    np.testing.assert_allclose(field.log_prob(x), expected - field.log_partition(), rtol=1e-7)


def test_conditioning(case):
    matrix, shift, field = case
    count = len(matrix)
    rng = np.random.default_rng(3)
    fixed = sorted(rng.permutation(count)[: rng.integers(0, count + 1)].tolist())
    free = [v for v in range(count) if v not in fixed]
    value = rng.normal(size=len(fixed)) / np.sqrt(np.diag(matrix)[fixed])
    left = field.given(dict(zip(fixed, value.tolist(), strict=True)))
    rest = matrix[np.ix_(free, free)]
    moved = shift[free] - matrix[np.ix_(free, fixed)] @ value
    constant = 0.7 + value @ shift[fixed] - 0.5 * value @ matrix[np.ix_(fixed, fixed)] @ value
    assert left.log_partition() == pytest.approx(
        dense_log_partition(rest, moved, constant), rel=1e-9, abs=TOLERANCE
    )
    if free:
        deviations = np.sqrt(np.linalg.inv(rest).diagonal())
        expected = np.linalg.solve(rest, moved)
        np.testing.assert_allclose(left.means() / deviations, expected / deviations, atol=1e-8)


def test_joint_is_prior_times_posterior(case):
    """log p(x) is log p(x_A) + log p(x_B | x_A), with the first from two log Z."""
    matrix, _, field = case
    x = field.sample(1, 5)
    value = {0: float(x[0, 0])}
    left = field.given(value)
    first = left.log_partition() - field.log_partition()
    rest = left.log_prob(x[:, 1:]) if len(matrix) > 1 else np.zeros(1)
    assert first + rest[0] == pytest.approx(field.log_prob(x)[0], rel=1e-7, abs=1e-7)


def test_samples_have_the_moments(case):
    matrix, _, field = case
    count = 20_000
    x = field.sample(count, 0)
    expected = np.linalg.inv(matrix)
    deviations = np.sqrt(expected.diagonal())
    standard = (x - field.means()) / deviations
    assert np.abs(standard.mean(0)).max() < 5 / math.sqrt(count)
    correlation = expected / np.outer(deviations, deviations)
    assert np.abs(standard.T @ standard / count - correlation).max() < 6 * math.sqrt(2 / count)
    # Whitened by the precision, squared lengths are chi-square.
    lengths = np.einsum("bi,ij,bj->b", x - field.means(), matrix, x - field.means())
    assert scipy.stats.kstest(lengths, "chi2", args=(len(matrix),)).pvalue > 1e-4


def test_by_hand():
    """Two noisy readings of one height: prior N(0, 4), readings 3 and 5 with variance 1."""
    field = GaussianField(
        [[0.25 + 2.0, -1.0, -1.0], [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]],
        [0.0, 0.0, 0.0],
        -math.log(2.0) - 1.5 * math.log(2 * math.pi),
    )
    assert field.log_partition() == pytest.approx(0.0, abs=1e-12)
    left = field.given({1: 3.0, 2: 5.0})
    assert left.means()[0] == pytest.approx(8 / 2.25)
    assert left.variances()[0] == pytest.approx(1 / 2.25)
    evidence = scipy.stats.multivariate_normal([0, 0], [[5, 4], [4, 5]]).logpdf([3.0, 5.0])
    assert left.log_partition() == pytest.approx(evidence)


def test_nothing_is_left():
    field = GaussianField(np.zeros((0, 0)), np.zeros(0), 1.5)
    assert field.log_partition() == 1.5
    assert field.means().shape == field.variances().shape == (0,)
    assert field.sample(3, 0).shape == (3, 0)


def test_the_same_seed_gives_the_same_samples():
    field = GaussianField(np.eye(3) * 2, np.ones(3))
    assert np.array_equal(field.sample(4, 7), field.sample(4, 7))
    assert not np.array_equal(field.sample(4, 7), field.sample(4, 8))


def test_another_shift_shares_the_factor():
    field = GaussianField(from_edges(9, grid_edges(3), np.random.default_rng(0)), np.zeros(9))
    field.factor, field.variances()
    other = field.shifted(np.ones(9), 0.5)
    assert other.factor is field.factor
    np.testing.assert_allclose(
        other.means(), np.linalg.solve(field.precision.toarray(), np.ones(9))
    )


@pytest.mark.parametrize("seed", range(8))
def test_fill_is_predicted_exactly(seed):
    """Without cancellation the factor has the entries that were predicted."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 60))
    pairs = [(a, b) for a, b in rng.integers(0, count, (2 * count, 2)).tolist() if a != b]
    graph = UndirectedGraph.from_edges(count, np.array(pairs).reshape(-1, 2))
    matrix = np.diag(2.0 + np.diff(graph.offsets))
    for first, second in graph.edges():
        matrix[first, second] = matrix[second, first] = -1.0
    field = GaussianField(matrix, np.zeros(count))
    assert sorted(fill_order(graph)) == list(range(count))
    assert field.factor.lower.nnz == field.cost.factor_entries
    together = [v for block in blocks_of(field.elimination) for v in block.members]
    assert sorted(together) == list(range(count))


def test_order_is_about_as_good_as_greedy_ones():
    graph = UndirectedGraph.from_edges(400, grid_edges(20))
    from deltaai.graphs import min_fill_order

    ours = gaussian_cost(gaussian_elimination(graph)).factor_entries
    greedy = gaussian_cost(eliminate(graph, min_fill_order(graph))).factor_entries
    assert ours < 1.5 * greedy


# -- what is refused -------------------------------------------------------------------------


def refusal(kind, call):
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, DeltaAIError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[1.0, -1.0], [-1.0, 1.0]], "not positive definite"),
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ([[1.0, 0.0], [0.0, 0.0]], "'b' is in no factor"),
        ([[1.0, 0.0], [0.0, -3.0]], "precision of 'b'"),
    ],
)
def test_densities_that_do_not_integrate(matrix, words):
    field = GaussianField(matrix, [0.0, 0.0], 0.0, ["a", "b"])
    assert words in refusal(ModelError, field.log_partition)


def test_an_intrinsic_field_is_refused_however_large():
    side = 20
    edges = grid_edges(side)
    graph = UndirectedGraph.from_edges(side * side, edges)
    matrix = sparse.lil_matrix((side * side, side * side))
    for first, second in edges:
        matrix[first, second] = matrix[second, first] = -1.0
    matrix.setdiag(np.diff(graph.offsets).astype(float))
    field = GaussianField(matrix, np.zeros(side * side), 0.0, [f"x{v}" for v in range(side**2)])
    message = refusal(ModelError, field.means)
    assert "nothing holds 'x" in message
    held = GaussianField(matrix + 1e-6 * sparse.identity(side * side), np.zeros(side * side))
    expected = np.linalg.inv(held.precision.toarray()).diagonal()
    np.testing.assert_allclose(held.variances(), expected, rtol=1e-5)


def test_the_variable_to_blame_is_named():
    rng = np.random.default_rng(0)
    matrix = from_edges(16, grid_edges(4), rng)
    bad = matrix.copy()
    bad[5, 5] -= 1.01 / np.linalg.inv(matrix)[5, 5]
    names = [f"v{number}" for number in range(16)]
    field = GaussianField(bad, np.zeros(16), 0.0, names)
    assert "nothing holds 'v" in refusal(ModelError, field.log_partition)
    assert math.isfinite(field.given({5: 0.0}).log_partition())


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "not symmetric"),
        ([[1.0, math.nan], [math.nan, 1.0]], "nan"),
        ([[math.inf, 0.0], [0.0, 1.0]], "inf"),
        ([[1.0, 0.0]], "square"),
        ("ridge", "no precision matrix"),
        ([[1.0, 2.0], [3.0]], "no precision matrix"),
    ],
)
def test_no_precision_matrix(matrix, words):
    assert words in refusal(ModelError, lambda: checked_precision(matrix, ["a", "b"]))


def test_bad_shifts_and_values():
    refusal(ModelError, lambda: GaussianField(np.eye(2), [0.0]))
    assert "'b'" in refusal(
        ModelError, lambda: GaussianField(np.eye(2), [0.0, math.nan], 0.0, "ab")
    )
    refusal(ModelError, lambda: GaussianField(np.eye(2), [0.0, 0.0], math.nan))
    field = GaussianField(np.eye(2), [0.0, 1e300])
    refusal(ModelError, field.log_partition)
    assert "'a'" in refusal(
        StateError, lambda: GaussianField(np.eye(2), [0, 0], 0.0, "ab").given({0: math.nan})
    )
    refusal(ConfigError, lambda: field.given({2: 0.0}))
    refusal(StateError, lambda: field.log_prob(np.zeros((3, 3))))
    refusal(ConfigError, lambda: field.covariance([0, 5]))
    refusal(ConfigError, lambda: field.sample(-1))


def test_memory_is_refused_before_it_is_taken():
    matrix = from_edges(900, grid_edges(30), np.random.default_rng(0))
    field = GaussianField(sparse.csc_matrix(matrix), np.zeros(900), memory_limit=100_000)
    refusal(MemoryLimitError, field.log_partition)
    roomy = GaussianField(sparse.csc_matrix(matrix), np.zeros(900), memory_limit=10**7)
    roomy.log_partition()
    refusal(NotAffordableError, lambda: roomy.sample(10**6))
