"""One object asked by several threads at once: the answers are those of one after the other."""

import copy
import pickle
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import deltaai as dai
from deltaai.exact import ConditionedInference, RowInference, find_cutset
from deltaai.fitting import posterior
from deltaai.graphs import random_dag
from deltaai.mcmc.annealed import annealed_importance
from deltaai.mcmc.chains import run_chains
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.gradient_moves import GibbsWithGradientsKernel
from deltaai.mcmc.tempering import ParallelTemperingKernel
from deltaai.messages import loopy_belief_propagation, mini_bucket_bound
from deltaai.sampling import kept_schedules
from deltaai.threads import Turn, limited_threads

Question = Callable[[], object]

LATTICE = dai.zoo.ising_lattice(side=9, sigma=0.7, seed=0)
SMALL = dai.zoo.ising_lattice(side=4, sigma=0.5, seed=0)
POTTS = dai.zoo.potts_lattice(side=3, states=3, sigma=0.5, seed=0)
LIMIT = 2**30


@cache
def trained(orders: str = "one", evidence: str | None = None) -> dai.Sampler:
    return dai.fit(SMALL, steps=10, orders=orders, evidence=evidence, seed=0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def states(model: dai.FactorGraph, count: int, seed: int = 0) -> Tensor:
    chance = torch.rand(count, model.num_variables, generator=generator(seed), dtype=torch.float64)
    return (chance * model.num_states).long()


def case(model: dai.FactorGraph, number: int) -> dict[str, int]:
    """Evidence on a third of the variables, another third for each number."""
    some = np.random.default_rng(number).permutation(model.num_variables)
    values = states(model, 1, number)[0].tolist()
    return {model.variables[v].name: values[v] for v in some[: model.num_variables // 3].tolist()}


# -- what is shared, and what is asked of it; anew in every round, so that nothing is kept yet -----


def exact_questions() -> list[Question]:
    engine = dai.exact(LATTICE)
    return [
        engine.log_partition,
        engine.marginals,
        engine.map,
        lambda: engine.sample(50, generator(1)),
        lambda: list(engine.clique_marginals()),
        lambda: engine.log_prob(states(LATTICE, 20)),
    ]


def evidence_questions() -> list[Question]:
    engine = dai.exact(POTTS, {"x_0_0": 1})
    return [
        engine.map,
        engine.marginals,
        engine.log_partition,
        lambda: engine.sample(9, None).shape,
    ]


def conditioned_questions() -> list[Question]:
    torus = dai.zoo.ising_torus(side=5, sigma=0.5, seed=0)
    cutset = find_cutset(torus, memory_limit=10_000)
    assert cutset is not None
    assert cutset.variables
    engine = ConditionedInference(torus, cutset, memory_limit=10_000)
    return [engine.marginals, engine.log_partition, engine.marginals]


def row_questions() -> list[Question]:
    engine = RowInference(LATTICE)

    def rows(count: int) -> Tensor:
        found = states(LATTICE, count, count)
        return found.where(torch.rand(found.shape, generator=generator(count)) < 0.3, -1)

    return [lambda count=count: engine.answer(rows(count)) for count in (29, 30, 31, 32, 1, 3)]


def kernel_questions() -> list[Question]:
    gibbs, tempered = GibbsKernel(LATTICE), ParallelTemperingKernel(LATTICE, [1.0, 0.5, 0.2])
    informed, scanned = GibbsWithGradientsKernel(SMALL), GibbsKernel(POTTS, "random")

    def chains(kernel, count, seed, beta=1.0):
        source = generator(seed)
        state = kernel.init(count, source)
        for _ in range(20):
            state, _ = kernel.step(state, source, beta)
        return state.states

    def cooled(kernel, count, seed):  # through more temperatures than are kept
        source = generator(seed)
        state = kernel.init(count, source)
        betas = [step / 80 for step in range(80)]
        return run_chains(kernel, state, 80, source, betas=betas)[0].states

    return [
        lambda: chains(gibbs, 64, 1),
        lambda: chains(gibbs, 500, 2),
        lambda: cooled(gibbs, 100, 3),
        lambda: annealed_importance(SMALL, 20, 20, generator(9)),
        lambda: chains(tempered, 50, 4),
        lambda: chains(tempered, 20, 5),
        lambda: chains(informed, 10, 6),
        lambda: chains(scanned, 30, 7, 0.3),
        lambda: chains(scanned, 70, 8),
    ]


def sampler_questions() -> list[Question]:
    sampler = copy.deepcopy(trained())
    return [
        lambda: sampler.answer({}, 200, generator(1), check_samples=0),
        lambda: sampler.answer(case(SMALL, 1), 200, generator(2)),
        lambda: dai.query(sampler, case(SMALL, 2), num_samples=100, check_samples=0),
        lambda: dai.query(sampler, [case(SMALL, 3), {}], num_samples=50, check_samples=0),
        lambda: sampler.sample(100, generator(4)),
        lambda: sampler.sample(20, generator(5), evidence=case(SMALL, 3)),
        lambda: sampler.log_prob(states(SMALL, 50)),
        lambda: sampler.residuals(50, generator(6)),
    ]


def order_questions() -> list[Question]:
    sampler = copy.deepcopy(trained("many"))
    drawer = posterior.EvidenceDrawer.of(sampler.model, sampler.proposal, sampler.orders)

    def many(first: int) -> object:  # more orders than are kept
        rows = [SMALL.resolve_evidence(case(SMALL, first + n)) for n in range(6)]
        return list(drawer.draw(rows, 5, generator(first)))

    def sampled(seed: int) -> object:
        dag = random_dag(sampler.orders.graph, np.random.default_rng(seed))
        return sampler.sample_with_log_prob(20, generator(seed), dag=dag)

    given = copy.deepcopy(trained(evidence="any"))
    return [
        lambda: many(0),
        lambda: many(6),
        lambda: many(3),
        lambda: [sampled(seed) for seed in range(3)],
        lambda: sampler.answer(case(SMALL, 1), 200, generator(1), check_samples=0),
        lambda: list(given.posteriors([case(SMALL, n) for n in range(5)], 20, generator(1))),
        lambda: given.answer(case(SMALL, 1), 200, generator(2), check_samples=0),
    ]


def model_questions() -> list[Question]:
    """Factors that are networks put their parameters into one module while it runs."""
    factor_model = neural_model()
    x = states(factor_model, 200)
    fixed = {"a0": 1}
    return [
        lambda: factor_model.log_score(x),
        lambda: factor_model.local_log_scores(x[:50]),
        lambda: factor_model.condition(fixed).log_score(x[:, 1:]),
        lambda: factor_model.log_ratio(x, x[:, 0] * 0 + 1, x[:, 2] * 0),
        lambda: dai.exact(factor_model, fixed).marginals(),
        lambda: dai.exact(factor_model).log_partition(),
        factor_model.content_hash,
        lambda: [len(factor.scope) for factor in factor_model.factors],
    ]


def neural_model() -> dai.FactorGraph:
    """Pairs that are read as tables, and a factor of more states than are."""
    wide = [dai.Variable(f"w{n}", 9) for n in range(4)]
    binary = [dai.Variable(f"a{n}", 2) for n in range(4)]

    def network(width: int, seed: int) -> nn.Module:
        source = generator(seed)
        module = nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 1)).double()
        for value in module.parameters():
            value.requires_grad_(requires_grad=False)
            value.copy_(torch.randn(value.shape, generator=source, dtype=torch.float64))
        return module

    pairs = [dai.NeuralFactor([f"a{n}", f"a{(n + 1) % 4}"], network(2, n)) for n in range(4)]
    return dai.FactorGraph(
        [*binary, *wide], [*pairs, dai.NeuralFactor([v.name for v in wide], network(36, 9))]
    )


def library_questions() -> list[Question]:
    model = dai.zoo.ising_lattice(side=5, sigma=0.5, seed=1)  # nothing kept yet

    def fitted(seed: int) -> object:
        return dict(dai.fit(model, steps=5, seed=seed).proposal.conditionals.named_parameters())

    return [
        lambda: dai.plan(model, case(model, 1), memory_limit=LIMIT),
        lambda: dai.query(model, case(model, 2), memory_limit=LIMIT),
        lambda: dai.query(model, method="bp"),
        lambda: dai.query(model, [case(model, n) for n in range(5)]),
        lambda: fitted(1),
        lambda: fitted(2),
        lambda: loopy_belief_propagation(model).log_partition,
        lambda: mini_bucket_bound(model, memory_limit=10**6).upper,
        lambda: model.log_ratios(states(model, 30)),
    ]


SUBJECTS = {
    made.__name__.removesuffix("_questions"): made
    for made in (
        exact_questions,
        evidence_questions,
        conditioned_questions,
        row_questions,
        kernel_questions,
        sampler_questions,
        order_questions,
        model_questions,
        library_questions,
    )
}


# -- asking ------------------------------------------------------------------------------------


def plain(value: object) -> object:
    """A value without its times, such that equal means equal in every bit."""
    if isinstance(value, Tensor):
        return plain(value.detach().numpy())
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    if isinstance(value, dai.FactorGraph):
        return None
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return plain({name: one for name, one in named.items() if name != "seconds"})
    if hasattr(value, "quality"):
        return plain([dict(value), value.quality])
    if isinstance(value, Mapping):
        return [(key, plain(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return repr(value)


def ask_at_once(questions: Sequence[Question]) -> list[object]:
    """Ask each question in a thread of its own; all start together."""
    together = threading.Barrier(len(questions))
    answers: list[object] = [None] * len(questions)

    def ask(number: int) -> None:
        together.wait()
        try:
            answers[number] = plain(questions[number]())
        except Exception as error:
            answers[number] = error

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(questions))]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # change threads often
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return answers


def check_rounds(subject: str, num_rounds: int) -> None:
    expected = [plain(question()) for question in SUBJECTS[subject]()]
    for _ in range(num_rounds):
        found = ask_at_once(SUBJECTS[subject]())
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            if isinstance(one, Exception):
                raise one
            assert one == other, f"question {number} about {subject} has another answer"


@pytest.fixture(autouse=True)
def few_orders(monkeypatch):
    """Forget orders as soon as a few others were asked for."""
    monkeypatch.setattr(kept_schedules, "_MOST", 3)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_threads_get_the_answers_of_one_after_the_other(subject):
    check_rounds(subject, 2)


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_threads_get_the_answers_of_one_after_the_other_many_times(subject):
    check_rounds(subject, 10)


def test_other_questions_may_be_asked_between_two_cliques():
    engine = dai.exact(POTTS)
    expected = [(names, table.copy()) for names, table in dai.exact(POTTS).clique_marginals()]
    walks = [engine.clique_marginals(), engine.clique_marginals()]
    for names, table in expected:
        for walk in walks:
            found = next(walk)
            assert found[0] == names
            assert (found[1] == table).all()
            engine.sample(3, generator())
            engine.map()


# -- copies ------------------------------------------------------------------------------------


def test_copies_take_turns_of_their_own():
    engine = dai.exact(POTTS)
    log_partition = engine.log_partition()
    shared, separate = copy.copy(engine), copy.deepcopy(engine)
    assert shared.map().labels == separate.map().labels
    assert engine.log_partition() == shared.log_partition() == log_partition
    turn = Turn()
    with turn:  # who holds one does not keep a copy's users out
        for other in (copy.deepcopy(turn), pickle.loads(pickle.dumps(turn))):
            assert ask_at_once([lambda other=other: other.__enter__()]) == ["None"]
    one, two = copy.deepcopy([turn, turn])
    assert one is two


def test_what_crossed_to_other_processes_still_does():
    for value in (LATTICE, dai.exact(POTTS), RowInference(POTTS), dai.plan(POTTS)):
        pickle.loads(pickle.dumps(value))
    kernel = pickle.loads(pickle.dumps(GibbsKernel(POTTS)))
    assert kernel.init(3, generator()).num_chains == 3
    drawn = copy.deepcopy(trained()).sample(10, generator())
    assert (drawn == trained().sample(10, generator())).all()


# -- how many threads torch uses ---------------------------------------------------------------


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def in_thread(question: Question) -> object:
    (answer,) = ask_at_once([question])
    return answer


@pytest.mark.usefixtures("two_threads")
def test_a_limit_of_threads_holds_for_its_own_thread_alone():
    with limited_threads(1):
        assert torch.get_num_threads() == 1
        with limited_threads(4):
            assert torch.get_num_threads() == 1
        assert in_thread(torch.get_num_threads) == "2"  # a new thread begins with what was usual
    assert torch.get_num_threads() == 2

    def limited() -> int:
        with limited_threads(1):
            return torch.get_num_threads()

    for _ in range(20):
        assert set(ask_at_once([limited] * 4)) == {"1"}
        assert in_thread(torch.get_num_threads) == "2"
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_row_that_is_looked_at_limits_nothing():
    for _ in trained().posteriors([{}, {}], 10, generator()):
        assert torch.get_num_threads() == 2
