"""Bayesian posteriors as factor graphs, with the defaults of ``fit``, beside NUTS of numpyro.

Eight schools, with what each coaching brought and its error, once as a user would write them and
once from standard normal effects; and a logistic regression of 20 coefficients on 500 rows. Means
are compared in units of the deviation, and the figure is the worst of all variables: 3 % for means
and deviations. Chains have an error of their own, which their effective samples tell; of eight
schools the truth comes from quadrature too, for given mu and tau everything else is normal. NUTS
draws the schools from standard normal effects, where its chains mix.

numpyro may live in an environment of its own, and is timed with its compilation:

    python -m venv peer && peer/bin/pip install numpyro jax jaxlib
    cd benchmarks && python nuts_peer.py --peer-python peer/bin/python
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time

import numpy as np

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
MU_SCALE, TAU_SCALE = 5.0, 5.0
NUM_ROWS, NUM_COEFFICIENTS = 500, 20
CASES = ("schools", "schools-standard", "schools-half-normal", "logistic")
FIGURE = 0.03


def rows_of_logistic():
    """Features and outcomes of the regression, drawn from its prior."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(NUM_ROWS, NUM_COEFFICIENTS))
    chance = 1 / (1 + np.exp(-features @ rng.normal(size=NUM_COEFFICIENTS)))
    return features, (rng.random(NUM_ROWS) < chance).astype(float)


# -- NUTS ------------------------------------------------------------------------------------------


def chains_of(case, chains, samples):
    """Means, deviations, R-hat and effective samples by NUTS, in a process of its own."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS

    numpyro.enable_x64()

    def schools():
        mu = numpyro.sample("mu", dist.Normal(0, MU_SCALE))
        prior = dist.HalfNormal if case.endswith("half-normal") else dist.HalfCauchy
        tau = numpyro.sample("tau", prior(TAU_SCALE))
        effect = numpyro.sample("effect", dist.Normal(0, 1).expand([len(EFFECTS)]))
        theta = numpyro.deterministic("theta", mu + tau * effect)
        numpyro.sample("y", dist.Normal(theta, ERRORS), obs=EFFECTS)

    def logistic():
        features, outcomes = map(jnp.asarray, rows_of_logistic())
        weight = numpyro.sample("w", dist.Normal(0, 1).expand([NUM_COEFFICIENTS]))
        numpyro.sample("y", dist.Bernoulli(logits=features @ weight), obs=outcomes)

    model = logistic if case == "logistic" else schools
    kernel = NUTS(model, target_accept_prob=0.8 if case == "logistic" else 0.95)
    run = MCMC(
        kernel,
        num_warmup=1000,
        num_samples=samples,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    wall, cpu = time.perf_counter(), time.process_time()
    run.run(jax.random.PRNGKey(0))
    drawn = {name: np.asarray(x) for name, x in run.get_samples(group_by_chain=True).items()}
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    drawn.pop("effect" if case != "schools-standard" else "theta", None)
    found = {"wall": seconds[0], "cpu": seconds[1], "marginals": {}}
    for name, facts in summary(drawn, group_by_chain=True).items():
        table = np.stack([np.ravel(facts[k]) for k in ("mean", "std", "n_eff", "r_hat")], 1)
        for number, row in enumerate(table.tolist()):
            found["marginals"][name if np.ndim(facts["mean"]) == 0 else f"{name}{number}"] = row
    return found


# -- quadrature ------------------------------------------------------------------------------------


def schools_by_quadrature(case):
    """Log Z, and mean and deviation of each variable: a sum over tau, for the rest is normal.

    With tau given, y_j ~ N(mu, s_j² + tau²), so mu is normal, and so is theta_j given mu.
    """
    grid = np.linspace(-18, 14, 40_001)  # of log tau
    tau = np.exp(grid)[:, None]
    log_prior = math.log(2 / (math.pi * TAU_SCALE)) - np.log1p((tau[:, 0] / TAU_SCALE) ** 2)
    if case.endswith("half-normal"):
        log_prior = 0.5 * math.log(2 / math.pi) - math.log(TAU_SCALE)
        log_prior = log_prior - 0.5 * (tau[:, 0] / TAU_SCALE) ** 2
    spread = ERRORS**2 + tau**2
    sharp = 1 / MU_SCALE**2 + (1 / spread).sum(1)
    mu = (EFFECTS / spread).sum(1) / sharp
    log_y = -0.5 * (np.log(2 * math.pi * spread) + EFFECTS**2 / spread).sum(1)
    log_y += 0.5 * mu**2 * sharp - 0.5 * np.log(sharp) - math.log(MU_SCALE)
    log_density = log_prior + log_y + grid
    top = log_density.max()
    share = np.exp(log_density - top)
    log_partition = top + math.log(share.sum() * (grid[1] - grid[0]))
    share /= share.sum()

    def moments(means, variances):
        mean = (share * means).sum()
        return mean, math.sqrt((share * (variances + (means - mean) ** 2)).sum())

    truth = {"mu": moments(mu, 1 / sharp), "tau": moments(tau[:, 0], 0.0)}
    for j, (y, s) in enumerate(zip(EFFECTS, ERRORS, strict=True)):
        if case == "schools-standard":
            weight = tau[:, 0] / spread[:, j]  # effect given mu: N(weight (y - mu), s²/spread)
            variance = s**2 / spread[:, j] + weight**2 / sharp
            truth[f"effect{j}"] = moments(weight * (y - mu), variance)
            continue
        weight = tau[:, 0] ** 2 / spread[:, j]  # theta given mu: mu + weight (y - mu)
        variance = weight * s**2 + (1 - weight) ** 2 / sharp
        truth[f"theta{j}"] = moments(mu + weight * (y - mu), variance)
    return log_partition, truth


# -- ours ------------------------------------------------------------------------------------------


def model_of(case):
    """The posterior as a factor graph."""
    import torch

    import deltaai as dai

    if case == "logistic":
        features, outcomes = map(torch.from_numpy, rows_of_logistic())
        names = [f"w{k}" for k in range(NUM_COEFFICIENTS)]

        def likelihood(w):
            logits = w.double() @ features.T
            return (logits * outcomes - torch.nn.functional.softplus(logits)).sum(1)

        priors = [dai.GaussianFactor(name, 0.0, 1.0) for name in names]
        variables = [dai.Variable(name, support="line") for name in names]
        return dai.FactorGraph(variables, [*priors, dai.FunctionFactor(names, likelihood)])

    def half_cauchy(tau):
        return math.log(2 / (math.pi * TAU_SCALE)) - torch.log1p((tau[:, 0] / TAU_SCALE) ** 2)

    def half_normal(tau):
        constant = 0.5 * math.log(2 / math.pi) - math.log(TAU_SCALE)
        return constant - 0.5 * (tau[:, 0] / TAU_SCALE) ** 2

    def effect(v):  # (mu, tau, theta)
        away = (v[:, 2] - v[:, 0]) / v[:, 1]
        return -0.5 * away**2 - v[:, 1].log() - 0.5 * math.log(2 * math.pi)

    def outcome_of(y, s):
        def outcome(v):  # (mu, tau, effect)
            away = (y - v[:, 0] - v[:, 1] * v[:, 2]) / s
            return -0.5 * away**2 - math.log(s) - 0.5 * math.log(2 * math.pi)

        return outcome

    variables = [dai.Variable("mu", support="line"), dai.Variable("tau", support=(0, None))]
    prior = half_normal if case.endswith("half-normal") else half_cauchy
    factors = [dai.GaussianFactor("mu", 0.0, MU_SCALE**2), dai.FunctionFactor(["tau"], prior)]
    for j, (y, s) in enumerate(zip(EFFECTS.tolist(), ERRORS.tolist(), strict=True)):
        if case == "schools-standard":
            variables.append(dai.Variable(f"effect{j}", support="line"))
            factors.append(dai.GaussianFactor(f"effect{j}", 0.0, 1.0))
            scope = ["mu", "tau", f"effect{j}"]
            factors.append(dai.FunctionFactor(scope, outcome_of(y, s)))
        else:
            variables.append(dai.Variable(f"theta{j}", support="line"))
            factors.append(dai.FunctionFactor(["mu", "tau", f"theta{j}"], effect))
            factors.append(dai.LinearGaussian(f"theta{j}", bias=y, scale=s))
    return dai.FactorGraph(variables, factors)


def ours(case, seed, samples):
    """Fit with defaults, and weighted means and deviations."""
    import torch

    import deltaai as dai

    model = model_of(case)
    wall, cpu = time.perf_counter(), time.process_time()
    sampler = dai.fit(model, seed=seed, progress=False)
    fitted = time.perf_counter() - wall, time.process_time() - cpu
    drawn = sampler.posterior({}, samples, torch.Generator().manual_seed(seed))
    x, estimate = drawn.states, drawn.estimate
    weights = (drawn.log_weights - drawn.log_weights.logsumexp(0)).exp()[:, None]
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    mean = (weights * x).sum(0)
    deviation = (weights * (x - mean) ** 2).sum(0).sqrt()
    names = [variable.name for variable in model.variables]
    found = zip(names, zip(mean.tolist(), deviation.tolist(), strict=True), strict=True)
    return sampler, estimate, dict(found), fitted, seconds


def worst(found, truth):
    """Largest error of a mean, in deviations, and of a deviation, relative to it."""
    of_means = {n: abs(found[n][0] - truth[n][0]) / truth[n][1] for n in truth}
    of_deviations = {n: abs(found[n][1] / truth[n][1] - 1) for n in truth}
    named = [max(errors.items(), key=lambda item: item[1]) for errors in (of_means, of_deviations)]
    return [f"{error:.1%} ({name})" for name, error in named], max(error for _, error in named)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=20_000, help="weighted samples of q")
    parser.add_argument("--peer-python", default=sys.executable, help="python that has numpyro")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--chain-samples", type=int, default=10_000)
    parser.add_argument("--chains-of", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.chains_of:
        print(json.dumps(chains_of(options.chains_of, options.chains, options.chain_samples)))
        return
    import torch

    from measure import header

    torch.set_num_threads(1)
    header("Bayesian posteriors beside NUTS")
    print("| case | by | seed | wall s (fit) | CPU s (fit) | log Z (truth) | ESS | k-hat ", end="")
    print("| means beside NUTS | deviations | beside quadrature | within 3 % |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for case in options.only:
        command = [options.peer_python, __file__, "--chains-of", case]
        command += ["--chains", str(options.chains), "--chain-samples", str(options.chain_samples)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        chains = json.loads(done.stdout.strip().splitlines()[-1])
        reference = {name: row[:2] for name, row in chains["marginals"].items()}
        log_partition, truth, text = math.nan, None, "-"
        if case != "logistic":
            log_partition, truth = schools_by_quadrature(case)
            text = ", ".join(worst(reference, truth)[0])
        effective = min(row[2] for row in chains["marginals"].values())
        mixing = max(row[3] for row in chains["marginals"].values())
        print(
            f"| {case} | NUTS, {options.chains} x {options.chain_samples} | 0 "
            f"| {chains['wall']:.1f} | {chains['cpu']:.1f} | - | {effective:.0f} effective "
            f"| R-hat {mixing:.4f} | - | - | {text} | - |",
            flush=True,
        )
        for seed in range(options.seeds):
            sampler, estimate, found, fitted, seconds = ours(case, seed, options.samples)
            beside, off = worst(found, reference)
            text = "-"
            if truth is not None:
                texts, off = worst(found, truth)
                text = ", ".join(texts)
            print(
                f"| {case} | fit, {sampler.history[-1]['step']} updates | {seed} "
                f"| {seconds[0]:.1f} ({fitted[0]:.1f}) | {seconds[1]:.1f} ({fitted[1]:.1f}) "
                f"| {estimate.log_partition:.4f} ({log_partition:.4f}) "
                f"| {estimate.ess_fraction:.1%} | {estimate.khat:.2f} "
                f"| {beside[0]} | {beside[1]} | {text} | {'yes' if off <= FIGURE else 'NO'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
