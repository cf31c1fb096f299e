"""How often is a status wrong? Both kinds of error, over many samplers with known answers.

A sampler is *good* if log Z - ELBO <= 0.05 nats. Good and bad ones alike are asked without
evidence, with likely evidence (values drawn from the model), with unlikely evidence (values drawn
evenly), one case at a time and in tables; each answer is held against an exact one.

- A *wrong claim* is an answer under a status other than `untrusted` whose log Z or a marginal is
  off by more than five of its standard errors (marginals: and by more than 0.01), or a marginal of
  which is off by more than 0.05.
- A *false alarm* is the status `untrusted` on an answer of a good sampler that is right: log Z
  within 0.05, all marginals within 0.02.
- *Planted errors* are samplers that were not trained, belong to another model, collapsed, or are
  asked far outside their training; what must not happen is a wrong claim, and without evidence
  they must be `untrusted`.
- *Lost modes* of known share must be found in 95 % of cases if the answer says that it would have
  noticed a part of that share; those of larger models are in `lost_modes.py`.

Training takes most of the time; samplers are kept in a folder and used again by the next run.
The scales `small` and `tiny` are for tests: fewer models, and smaller ones.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

import deltaai as dai
import lost_modes as lost_modes_of_large_models
from deltaai.fitting.sampler import Sampler
from measure import header

GOOD_GAP = 0.05
NETWORKS = ("asia", "cancer", "earthquake", "survey", "sachs", "child", "alarm", "hepar2")


def cases(scale: str, data: Path | None):
    """Names, models and settings of `fit`; names say how to train, so that files can be kept."""
    zoo, few = dai.zoo, scale != "full"
    if scale == "tiny":
        short = {"steps": 200}
        yield "factor-ladder-8", zoo.factor_ladder(num_variables=8, sigma=0.5, seed=0), short
        yield "random-6", zoo.random_factor_graph(6, 10, max_arity=3, max_states=3, seed=0), short
        yield "lattice-4", zoo.ising_lattice(side=4, sigma=0.3, seed=0), short
        return

    def seeds(count):
        return range(1 if few else count)

    near = {"target_kl": 0.02, "polish_steps": 400}  # good, but not better than need be
    for seed in seeds(15):
        for size in (16,) if few else (16, 32):
            for sigma in (0.5,) if few else (0.5, 1.0):
                model = zoo.factor_ladder(num_variables=size, sigma=sigma, seed=seed)
                yield f"factor-ladder-{size}-{sigma}-{seed}", model, {}
        model = zoo.random_factor_graph(
            num_variables=14, num_factors=30, max_arity=3, max_states=3, scale=1.0, seed=seed
        )
        yield f"random-{seed}", model, {}
    for seed in seeds(6):
        for sigma in (0.3,) if few else (0.2, 0.5, 0.8):
            model = zoo.ising_lattice(side=6, sigma=sigma, seed=seed)
            yield f"lattice-6-{sigma}-{seed}", model, {}
        if few:
            continue
        for sigma in (0.5, 1.0):
            model = zoo.potts_lattice(side=4, states=3, sigma=sigma, seed=seed)
            yield f"potts-4-{sigma}-{seed}", model, {}
        model = zoo.ising_lattice(side=5, sigma=0.3, seed=100 + seed)
        yield f"lattice-5-{seed}-many", model, {"orders": "many", "target_kl": 0.02}
        for side in (4, 5):
            model = zoo.factor_lattice(side=side, sigma=0.5, seed=seed)
            yield f"factor-lattice-{side}-{seed}", model, {}
        for sigma in (1.0, 1.5, 2.0):
            model = zoo.ising_lattice(side=6, sigma=sigma, seed=seed)
            yield f"lattice-6-{sigma}-{seed}-near", model, near
        for sigma in (0.5, 1.0):
            model = zoo.ising_torus(side=5, sigma=sigma, seed=seed)
            yield f"torus-5-{sigma}-{seed}-near", model, near
        for sigma in (0.2, 0.5, 1.0, 1.5, 2.0):
            model = zoo.ising_lattice(side=8, sigma=sigma, seed=seed)
            yield f"lattice-8-{sigma}-{seed}-near", model, near
    if few:
        return
    for name in () if data is None else NETWORKS:
        model = dai.read(data / "bif" / f"{name}.bif.gz")
        for seed in range(2):
            yield f"{name}-{seed}", model, {"smoothing": 1e-3, "steps": 300}
        yield f"{name}-any", model, {"evidence": "any", "smoothing": 1e-3, "steps": 600}
    for seed in range(4):
        for sigma in (0.3, 0.8):
            model = zoo.ising_lattice(side=5, sigma=sigma, seed=200 + seed)
            yield f"lattice-5-{sigma}-{seed}-any", model, {"evidence": "any", "steps": 600}
        model = zoo.potts_lattice(side=6, states=3, sigma=0.5, seed=seed)
        yield f"potts-6-{seed}-near", model, near
    for side, sigma in [(12, 0.5), (12, 1.0), (12, 1.5), (16, 0.2), (16, 1.0)]:
        model = zoo.ising_lattice(side=side, sigma=sigma, seed=0)
        yield f"lattice-{side}-{sigma}-near", model, near


def trained(name: str, model, settings, folder: Path | None):
    """A sampler from the folder, or a new one that is put there."""
    path = None if folder is None else folder / f"{name}.dai"
    if path is not None and path.exists():
        return dai.load(path)
    sampler = dai.fit(model, seed=1, **settings)
    if path is not None:
        sampler.save(path)
    return sampler


def gap_of(sampler) -> float:
    """Log Z less the ELBO: how far q is from p, in nats."""
    generator = torch.Generator().manual_seed(7)
    x, log_q = sampler.sample_with_log_prob(4000, generator)
    log_weights = sampler.model.log_score(x).double() - log_q
    possible = log_weights[log_weights > -torch.inf]
    return dai.exact(sampler.model).log_partition() - float(possible.mean())


@dataclass
class Tally:
    """What was found in all answers of some kind."""

    answers: int = 0
    untrusted: int = 0
    right: int = 0
    false_alarms: list[str] = field(default_factory=list)
    wrong_claims: list[str] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)
    marginal_inside: list[bool] = field(default_factory=list)
    statuses: Counter = field(default_factory=Counter)
    methods: Counter = field(default_factory=Counter)


def judge(tally: Tally, where: str, found: dict, truth, *, is_good: bool, rng) -> None:
    """Hold one answer against the truth."""
    log_z, marginals = truth
    tally.answers += 1
    tally.statuses[found["status"]] += 1
    tally.methods[found["method"]] += 1
    off_z = abs(found["log_partition"] - log_z)
    names = [name for name in marginals if np.max(marginals[name]) < 1]
    offs = {name: np.abs(found["marginals"][name] - marginals[name]) for name in names}
    worst = max((float(off.max()) for off in offs.values()), default=0.0)
    is_right = off_z <= 0.05 and worst <= 0.02
    tally.right += is_right
    if found["status"] == "untrusted":
        tally.untrusted += 1
        if is_right and is_good:
            tally.false_alarms.append(f"{where}: {found['doubts']}")
        return
    errors = found["stderr"]
    far = any(bool(((off > 5 * errors[name]) & (off > 0.01)).any()) for name, off in offs.items())
    if off_z > 5 * found["log_stderr"] or worst > 0.05 or far:
        tally.wrong_claims.append(
            f"{where}: log Z off by {off_z:.3g} ± {found['log_stderr']:.2g}, a marginal by "
            f"{worst:.3g} ({found['status']}, {found['method']})"
        )
    low, high = found["interval"]
    if found["status"] != "exact":
        tally.inside.append(low <= log_z <= high)
        if names:
            chosen = names[int(rng.integers(len(names)))]
            least, most = found["bounds"](chosen)
            state = int(rng.integers(len(marginals[chosen])))
            tally.marginal_inside.append(least[state] <= marginals[chosen][state] <= most[state])


def of_answer(answer) -> dict:
    """What is judged, from an answer to one question."""
    return {
        "status": answer.status,
        "method": answer.method,
        "doubts": answer.doubts,
        "log_partition": answer.log_partition,
        "log_stderr": answer.stderr,
        "interval": answer.interval,
        "marginals": answer.marginals,
        "stderr": answer.marginals.stderr,
        "bounds": lambda name: answer.marginals.estimate(name).interval,
    }


def of_row(table, row: int) -> dict:
    """What is judged, from a row of a table."""
    from scipy import stats

    sizes = [table.model.variables[table.model.index(name)].num_states for name in table.names]
    parts = np.split(table.errors[row], np.cumsum(sizes)[:-1])
    errors, values = dict(zip(table.names, parts, strict=True)), table.marginals(row)
    reach = stats.norm.ppf(0.975)
    log_z, error = table.log_partition[row], table.stderr[row]
    return {
        "status": table.status[row],
        "method": "table",
        "doubts": table.doubts[row],
        "log_partition": log_z,
        "log_stderr": error,
        "interval": (log_z - reach * error, log_z + reach * error),
        "marginals": values,
        "stderr": errors,
        "bounds": lambda name: (
            values[name] - reach * errors[name],
            values[name] + reach * errors[name],
        ),
    }


def questions(model, rng, count: int):
    """Evidence of three kinds: none, likely, unlikely but possible."""
    yield "no evidence", {}
    engine = dai.exact(model)
    for kind in ("likely", "unlikely"):
        for _ in range(count):
            size = int(rng.integers(1, max(model.num_variables // 4, 2) + 1))
            seen = rng.choice(model.num_variables, size, replace=False)
            state = engine.sample(1, torch.Generator().manual_seed(int(rng.integers(2**31))))[0]
            if kind == "unlikely":
                state = [int(rng.integers(v.num_states)) for v in model.variables]
            evidence = {model.variables[v].name: int(state[v]) for v in sorted(seen.tolist())}
            try:
                dai.exact(model, evidence).log_partition()
            except dai.ImpossibleEvidenceError:
                continue
            yield kind, evidence


def truth_of(model, evidence):
    engine = dai.exact(model, evidence)
    return engine.log_partition(), engine.marginals()


def ask(name: str, sampler, tallies: dict[str, Tally], *, is_good: bool, count: int) -> None:
    """Put all kinds of questions to a sampler."""
    rng = np.random.default_rng(abs(hash_of(name)))
    asked = list(questions(sampler.model, rng, count))
    truths = [truth_of(sampler.model, evidence) for _, evidence in asked]
    for number, ((kind, evidence), truth) in enumerate(zip(asked, truths, strict=True)):
        answer = dai.query(sampler, evidence, seed=number)
        where = f"{name}, {kind} {evidence}"
        judge(tallies[kind], where, of_answer(answer), truth, is_good=is_good, rng=rng)
    table = dai.query_table(sampler, [evidence for _, evidence in asked], seed=0)
    for row, truth in enumerate(truths):
        where = f"{name}, row {asked[row]}"
        judge(tallies["tables"], where, of_row(table, row), truth, is_good=is_good, rng=rng)


def hash_of(name: str) -> int:
    """A number that is the same in every run."""
    return int.from_bytes(name.encode(), "little") % 2**31


def planted(scale: str):
    """Samplers that are wrong: what is wrong, and the sampler."""
    few = scale != "full"
    for side, sigma in [(4, 1.0)] if few else [(4, 1.0), (6, 0.8), (8, 1.0), (12, 1.5)]:
        model = dai.zoo.ising_lattice(side=side, sigma=sigma, seed=0)
        yield f"untrained, side {side}", dai.fit(model, steps=0, is_informed=False)
        other = dai.fit(dai.zoo.ising_lattice(side=side, sigma=sigma, seed=1), steps=100)
        yield (
            f"another model, side {side}",
            Sampler(model, other.proposal, other.orders, other.config),
        )
        collapsed = dai.fit(model, steps=0, is_informed=False)
        with torch.no_grad():
            for name, parameter in collapsed.proposal.conditionals.named_parameters():
                parameter.zero_()
                if "last_bias" in name:
                    parameter.fill_(12.0)
        yield f"collapsed, side {side}", collapsed


def ferromagnet(num_spins: int, width: int, field_strength: float):
    """Spins on a cylinder that all agree: two wells whose shares a field decides."""
    names = [f"x{number}" for number in range(num_spins)]
    couplings = []
    for v in range(num_spins):
        for step in (1, width):
            if v + step < num_spins:
                couplings.append(dai.SpinCoupling(names[v], names[v + step], 0.9))
    fields = [dai.SpinField(name, field_strength / num_spins) for name in names]
    return dai.FactorGraph([dai.Variable(name) for name in names], couplings + fields)


def lost_modes(scale: str):
    """Samplers that are right within one well: the share of the other, and the sampler."""
    few = scale != "full"
    for num_spins, width in [(12, 3)] if few else [(12, 3), (36, 6), (64, 8)]:
        for share in (0.3,) if few else (0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02):
            strength = 0.5 * float(np.log((1 - share) / share))
            model = ferromagnet(num_spins, width, strength)
            pulled = dai.FactorGraph(
                model.variables, [*model.factors, dai.SpinField(model.variables[0].name, 5.0)]
            )
            donor = dai.fit(pulled, steps=150 if few else 300, target_kl=1e-5, seed=0)
            yield share, Sampler(model, donor.proposal, donor.orders, donor.config)


def share_missing(sampler) -> float:
    """Share of the distribution that q does not draw: what its log Z falls short by."""
    samples = sampler.posterior({}, 4000, torch.Generator().manual_seed(0))
    short = samples.estimate.log_partition - dai.exact(sampler.model).log_partition()
    return float(-np.expm1(short))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=["tiny", "small", "full"], default="full")
    parser.add_argument("--questions", type=int, default=3, help="of each kind")
    parser.add_argument("--keep", type=Path, help="folder for trained samplers")
    parser.add_argument("--data-dir", type=Path, help="folder with bif/")
    parser.add_argument("--train-only", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    header("Two kinds of wrong status")
    report(
        run(options.scale, options.questions, options.keep, options.data_dir, options.train_only)
    )


def run(scale, count, keep=None, data=None, train_only=False) -> dict:
    """Everything; what `report` prints."""
    start = time.perf_counter()
    kinds = ("no evidence", "likely", "unlikely", "tables")
    good, others = ({kind: Tally() for kind in kinds} for _ in range(2))
    gaps = []
    for name, model, settings in cases(scale, data):
        sampler = trained(name, model, settings, keep)
        if train_only:
            continue
        gaps.append(gap_of(sampler))
        is_good = gaps[-1] <= GOOD_GAP
        ask(name, sampler, good if is_good else others, is_good=is_good, count=count)
    errors = {} if train_only else found_errors(scale, count)
    return {
        "good": good,
        "others": others,
        "gaps": gaps,
        **errors,
        "seconds": time.perf_counter() - start,
    }


def found_errors(scale: str, count: int) -> dict:
    """What becomes of planted errors and of lost modes."""
    missed, wrong, number = [], Tally(), 0
    for what, sampler in planted(scale):
        for seed in range(5 if scale == "full" else 2):
            number += 1
            if dai.query(sampler, seed=seed).status != "untrusted":
                missed.append(f"{what}, seed {seed}")
        ask(what, sampler, dict.fromkeys(("no evidence", "likely", "unlikely", "tables"), wrong),
            is_good=False, count=count)  # fmt: skip
    lost = []
    for share, sampler in lost_modes(scale):
        missing = share_missing(sampler)
        for seed in range({"tiny": 1, "small": 3, "full": 10}[scale]):
            for check_samples in (200, 4000):
                answer = dai.query(sampler, seed=seed, check_samples=check_samples)
                is_found = answer.status == "untrusted"
                lost.append((share, missing, answer.visible_share, is_found))
    shares = {"tiny": (0.1,), "small": (0.3, 0.1)}
    few = {} if scale == "full" else {"shares": shares[scale], "num_seeds": 1}
    return {
        "missed": missed,
        "planted": number,
        "planted_answers": wrong,
        "lost": lost,
        "lost_large": lost_modes_of_large_models.run(scale, **few),
    }


def report(found: dict) -> None:
    """Print the table."""
    gaps = np.array(found["gaps"])
    if not len(gaps):
        return
    print(f"{len(gaps)} samplers, {int((gaps <= GOOD_GAP).sum())} of them good.\n")
    print("| samplers | question | answers | untrusted | false alarms | wrong claims ", end="")
    print("| log Z inside | marginal inside |\n|---|---|---|---|---|---|---|---|")
    together = Tally()  # of all intervals
    for label, tallies in (("good", found["good"]), ("other", found["others"])):
        for kind, tally in tallies.items():
            print(_line(label, kind, tally))
            together.inside += tally.inside
            together.marginal_inside += tally.marginal_inside
    print(_line("planted errors", "all kinds", found["planted_answers"]))
    alarms = [alarm for tally in found["good"].values() for alarm in tally.false_alarms]
    answers = sum(tally.answers for tally in found["good"].values())
    every = [*found["good"].values(), *found["others"].values(), found["planted_answers"]]
    claims = [claim for tally in every for claim in tally.wrong_claims]
    both = np.mean(together.inside + together.marginal_inside)
    print(f"\nFalse alarms: {len(alarms)} of {answers} ({len(alarms) / answers:.2%}).")
    print(f"Wrong claims: {len(claims)}.")
    print(f"95 % intervals that hold the truth: {both:.1%} (log Z {np.mean(together.inside):.1%}, ")
    print(f"marginals {np.mean(together.marginal_inside):.1%}).")
    print(f"Planted errors not called untrusted: {len(found['missed'])} of {found['planted']}.")
    seen = [row for row in found["lost"] if row[1] > row[2]]
    caught = np.mean([row[3] for row in seen])
    print(f"Lost modes above what the answer says it could see: {caught:.1%} of {len(seen)} found.")
    below = [row for row in found["lost"] if row[1] <= row[2]]
    print(f"Below that: {sum(row[3] for row in below)} of {len(below)}.")
    lost_modes_of_large_models.report(found["lost_large"])
    print(f"{found['seconds']:.0f} s in all.\n")
    for line in [*alarms, *claims, *found["missed"]]:
        print(f"- {line}")


def _line(label: str, kind: str, tally: Tally) -> str:
    inside = f"{np.mean(tally.inside):.1%}" if tally.inside else ""
    marginal = f"{np.mean(tally.marginal_inside):.1%}" if tally.marginal_inside else ""
    cells = (label, kind, tally.answers, tally.untrusted, len(tally.false_alarms))
    return f"| {' | '.join(map(str, (*cells, len(tally.wrong_claims), inside, marginal)))} |"


if __name__ == "__main__":
    main()
