"""The any-order task between updates, and what the any-order parts refuse."""

import pytest
import torch

from deltaai.errors import ConfigError, ModelError, StateError, TrainingError
from deltaai.models import zoo
from deltaai.objectives.any_order_balance import AnyOrderObjective
from deltaai.sampling.any_order_policy import AnyOrderPolicy
from deltaai.sampling.policies import ON_POLICY
from deltaai.training.any_order_paths import AnyOrderTask
from deltaai.training.config import TrainingConfig
from deltaai.training.loop import Trainer
from deltaai.training.nested_state import pack_state, unpack_state
from deltaai.training.phases import main_phase


def small_task(objective="fl-subtb", **options):
    model = zoo.ising_lattice(side=2, sigma=0.5, seed=0)
    generator = torch.Generator().manual_seed(0)
    policy = AnyOrderPolicy(model.num_states.tolist(), 8, generator=generator)
    return AnyOrderTask(model, policy, AnyOrderObjective(objective, **options))


def drawn_task(beta=0.5):
    task = small_task()
    task.draw(6, ON_POLICY, beta, torch.Generator().manual_seed(1))
    return task


# -- the task ----------------------------------------------------------------------------------


def test_drawn_paths_survive_a_checkpoint():
    task = drawn_task()
    tensors, packed = pack_state(task.state())
    other = small_task()
    assert not other.is_drawn
    other.restore(unpack_state(tensors, packed), torch.Generator())
    assert other.is_drawn
    assert other.beta == task.beta == 0.5
    assert torch.equal(other.loss(), task.loss())


def test_an_undrawn_task_has_an_empty_state():
    task = drawn_task()
    task.restore(small_task().state(), torch.Generator())
    assert not task.is_drawn
    with pytest.raises(TrainingError, match="call draw first"):
        task.loss()


def test_log_partition_has_a_rate_of_its_own():
    task = small_task(partition_rate=0.3, log_partition=2)
    networks, partition = task.parameter_groups(1e-3)
    assert (networks["lr"], partition["lr"]) == (1e-3, 0.3)
    assert [float(value.detach()) for value in partition["params"]] == [2.0]
    in_groups = [id(value) for group in (networks, partition) for value in group["params"]]
    assert sorted(in_groups) == sorted(id(value) for value in task.trained.parameters())


def test_rewards_are_those_of_the_tempered_target():
    task = drawn_task(beta=0.5)
    wanted = 0.5 * task.scorer.log_score(task.batch.columns.T)
    torch.testing.assert_close(task.batch.log_rewards[-1], wanted)


@pytest.mark.parametrize("objective", ["tb", "db", "subtb", "fl-db", "fl-subtb"])
def test_gradients_are_finite_and_reach_what_is_used(objective):
    task = small_task(objective)
    task.draw(6, ON_POLICY, 1.0, torch.Generator().manual_seed(1))
    task.loss().backward()
    gradients = {name: value.grad for name, value in task.trained.named_parameters()}
    assert all(bool(gradient.isfinite().all()) for gradient in gradients.values())
    flow_gradient = float(gradients["policy.heads"][-1].abs().max())
    assert (flow_gradient > 0) == (objective != "tb")


def test_a_learned_backward_policy_has_finite_gradients():
    model = zoo.potts_lattice(side=2, states=3, sigma=0.5, seed=0)
    policy = AnyOrderPolicy(
        model.num_states.tolist(),
        8,
        is_backward_learned=True,
        generator=torch.Generator().manual_seed(0),
    )
    task = AnyOrderTask(model, policy, AnyOrderObjective("db"))
    task.draw(6, ON_POLICY, 1.0, torch.Generator().manual_seed(1))
    task.loss().backward()
    for value in task.trained.parameters():
        assert bool(value.grad.isfinite().all())
    backward = policy.heads.grad[policy.num_states[0] * 4 : -1]
    assert bool((backward.abs().amax(1) > 0).all())


def test_the_same_seed_gives_the_same_paths():
    first, second = (small_task().sampler for _ in range(2))
    drawn = [
        sampler.sample(5, generator=torch.Generator().manual_seed(3)) for sampler in (first, second)
    ]
    assert torch.equal(torch.cat(drawn[0]), torch.cat(drawn[1]))
    assert set(first.state_dict()) == {name for name, _ in first.named_parameters()}


# -- refusals ----------------------------------------------------------------------------------


def test_models_are_refused():
    with pytest.raises(ModelError, match="no variables"):
        AnyOrderPolicy([])
    policy = AnyOrderPolicy([2, 2, 3], 4)
    objective = AnyOrderObjective("tb")
    with pytest.raises(ModelError, match=r"build it from model\.num_states"):
        AnyOrderTask(zoo.ising_lattice(side=2, sigma=0.5, seed=0), policy, objective)
    model = zoo.sprinkler()
    with pytest.raises(ModelError, match="positive everywhere"):
        AnyOrderTask(model, AnyOrderPolicy(model.num_states.tolist(), 4), objective)


@pytest.mark.parametrize(
    "columns",
    [[[0], [1]], [[0], [1], [3]], [[0], [-1], [0]]],
    ids=["too-few", "too-large", "negative"],
)
def test_wrong_states_are_refused(columns):
    policy = AnyOrderPolicy([2, 2, 3], 4)
    columns = torch.tensor(columns)
    ranks = torch.arange(len(columns))[:, None]
    with pytest.raises(StateError, match="no states of 3 variables"):
        policy.log_paths(columns, ranks)
    with pytest.raises(StateError, match="no states of 3 variables"):
        policy.log_prob(columns, 2)


def test_wrong_ranks_and_counts_are_refused():
    policy = AnyOrderPolicy([2, 2, 3], 4)
    columns = torch.zeros(3, 1, dtype=torch.long)
    with pytest.raises(StateError, match="each once"):
        policy.log_paths(columns, torch.tensor([[0], [0], [1]]))
    with pytest.raises(StateError, match="num_paths is 0"):
        policy.log_prob(columns, 0)


def test_single_precision_scores_are_refused():
    model = zoo.ising_lattice(side=2, sigma=0.5, seed=0).to(dtype=torch.float32)
    columns = torch.zeros(4, 1, dtype=torch.long)
    with pytest.raises(StateError, match=r"pass model\.to"):
        AnyOrderObjective("tb").prepare(model, columns, torch.arange(4)[:, None])


@pytest.mark.parametrize("options", [{"decay": 0.0}, {"partition_rate": -1}])
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match="must be a positive number"):
        AnyOrderObjective("subtb", **options)


# -- under the loop ----------------------------------------------------------------------------


def test_a_resumed_run_is_the_run_that_was_not_interrupted(tmp_path):
    settings = {"batch_size": 8, "resample_every": 3, "evaluate_every": 0, "evaluation_samples": 50}
    checkpoint = tmp_path / "run.dai"
    config = TrainingConfig(steps=8, checkpoint_every=4, **settings)
    whole = Trainer([main_phase(config, small_task())], config)
    whole.run(watch=lambda now: whole.save(checkpoint) if now.step == 4 else None)
    resumed = Trainer([main_phase(config, small_task())], config)
    resumed.resume(checkpoint)
    assert resumed.step == 4
    resumed.run()
    theirs = whole.phase.task.trained.state_dict()
    for name, value in resumed.phase.task.trained.state_dict().items():
        assert torch.equal(value, theirs[name])
