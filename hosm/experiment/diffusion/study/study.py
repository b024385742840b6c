"""Bounds and draws at each number of steps and covariance, and likelihoods by the flow."""

import time
from itertools import product

import pandas as pd
import torch

from hosm.diffusion import (
    EDM,
    Beta,
    BetaTilde,
    Covariance,
    Diagonal,
    LowRank,
    OptimalIsotropic,
    ancestral,
    ddim,
    dpm_solver,
    flow_log_likelihood,
    heun,
    learned_trace,
    random_trace,
    start,
    variational_bound,
)
from hosm.diffusion.covariances import Model
from hosm.diffusion.likelihood import Trace
from hosm.distributions import GaussianMixture
from hosm.exact_scores import ExactScores
from hosm.experiment.diffusion.study.models import ExactCovariance, law, seeded, train
from hosm.experiment.run.machine_load import Watch, wait_until_quiet
from hosm.experiment.settings import DiffusionParams
from hosm.experiment.shared.rows import Row
from hosm.experiment.shared.stopwatch import Times, summary, timed_in_turn
from hosm.metrics import sliced_wasserstein
from hosm.scores import ScoreModel

__all__ = ["headline", "run_study"]

EXACT, LEARNED = "exact", "network"  # where the mean comes from
BOTH = "diagonal plus low rank"
Methods = dict[tuple[str, str], tuple[Model, Covariance]]  # by mean and name of the covariance


def methods(
    network: ScoreModel, exact: GaussianMixture, sigmas: torch.Tensor, points: int
) -> Methods:
    """Return model and covariance by where the mean comes from and the covariance's name."""
    truth, std = ExactScores(exact), float(exact.variance.mean().sqrt())
    held, found = exact.sample(points, seeded(3)), Methods()
    means: dict[str, Model] = {EXACT: truth, LEARNED: network}
    for mean, model in means.items():
        isotropic = OptimalIsotropic.fit(model, held, sigmas, seeded(4))
        found[mean, "beta"] = model, Beta(std)
        found[mean, "beta-tilde"] = model, BetaTilde(std)
        found[mean, "optimal isotropic"] = model, isotropic
        found[mean, "diagonal"] = model, Diagonal()
    found[LEARNED, BOTH] = network, LowRank()
    found[EXACT, "exact"] = truth, LowRank()
    found[LEARNED, "exact"] = ExactCovariance(network, truth), LowRank()
    return found


def _stochastic(
    exact: GaussianMixture, network: ScoreModel, params: DiffusionParams, steps: int, seed: int
) -> list[Row]:
    """Return the gap of the bound and the distance of draws for each covariance."""
    sigmas, n = EDM(*params.sigma).grid(steps), params.points
    prior = start(exact.mean, exact.variance, params.sigma[1], n)
    x, target = exact.sample(n, seeded(5, seed)), exact.sample(n, seeded(6, seed))
    rows, nats = [], exact.log_prob(x)
    for (mean, name), (model, kind) in methods(network, exact, sigmas, n).items():
        bound = variational_bound(model, x, sigmas, kind, prior, seeded(7, seed)).total
        begin = prior.sample(seeded(8, seed))
        draws = ancestral(model, begin, sigmas, kind, seeded(9, seed), last_noise=True)
        rows.append(
            {
                "mean": mean,
                "covariance": name,
                "gap": float((bound + nats).mean()) / params.dimension,
                "distance": sliced_wasserstein(draws.x, target, seeded(10, seed)),
                "evaluations": draws.evaluations,
            }
        )
    return rows


def _deterministic(
    exact: GaussianMixture, network: ScoreModel, params: DiffusionParams, steps: int, seed: int
) -> list[Row]:
    """Return the distance of draws of the deterministic samplers, and of exact draws."""
    sigmas, n = EDM(*params.sigma).grid(steps), params.points
    prior = start(exact.mean, exact.variance, params.sigma[1], n)
    target, rows = exact.sample(n, seeded(6, seed)), []
    samplers = {"DDIM": ddim, "DPM-Solver++(2M)": dpm_solver, "Heun": heun}
    for name, sampler in samplers.items():
        draws = sampler(network, prior.sample(seeded(8, seed)), sigmas)
        distance = sliced_wasserstein(draws.x, target, seeded(10, seed))
        row = {"mean": LEARNED, "covariance": name, "distance": distance}
        rows.append(row | {"evaluations": draws.evaluations})
    distance = sliced_wasserstein(exact.sample(n, seeded(11, seed)), target, seeded(10, seed))
    return [*rows, {"mean": EXACT, "covariance": "draws of the law", "distance": distance}]


def step_rows(exact: GaussianMixture, network: ScoreModel, params: DiffusionParams) -> list[Row]:
    """Return a row for each number of steps, seed, mean and covariance or sampler."""
    rows = []
    for steps, seed in product(params.steps, params.seeds):
        place = {"steps": steps, "seed": seed}
        parts = (
            part(exact, network, params, steps, seed) for part in (_stochastic, _deterministic)
        )
        rows += [place | row for part in parts for row in part]
    return rows


def second_rows(exact: GaussianMixture, network: ScoreModel, params: DiffusionParams) -> list[Row]:
    """Return the seconds of a step, timed in turn, for each covariance of the network."""
    sigmas, n = EDM(*params.sigma).grid(10), params.points
    sigma, sigma_next = sigmas[4:6].tolist()
    x = exact.smoothed(sigma).sample(n, seeded(12))
    kinds = methods(network, exact, sigmas, n)
    with torch.no_grad():
        works = {
            name: lambda m=model, k=kind: k.step(m, x, sigma, sigma_next).sample(seeded(13))  # type: ignore[misc]
            for (mean, name), (model, kind) in kinds.items()
            if mean == LEARNED
        }
        times = timed_in_turn(works, params.repeats, x.device)
    return [{"covariance": name, "points": n, **summary(each)} for name, each in times.items()]


def _flows(params: DiffusionParams) -> dict[str, Trace]:
    random = {
        f"Hutchinson, {k} probe{'s' if k > 1 else ''}": random_trace(k, seeded(14, k))
        for k in params.probes
    }
    return {"trace of s2": learned_trace, **random}


def _flow_row(
    model: Model, trace: Trace, x: torch.Tensor, truth: torch.Tensor, params: DiffusionParams
) -> Row:
    """Return the error, the noise and the seconds of one source of the trace."""
    size, values, seconds = params.dimension, [], []
    exact = law(params)
    prior = start(exact.mean, exact.variance, params.sigma[1], len(x))
    wait_until_quiet()
    watch = Watch()
    for _ in range(params.repeats):
        began = time.perf_counter()
        flow = flow_log_likelihood(model, x, params.sigma, params.flow_steps, prior, trace=trace)
        seconds.append(time.perf_counter() - began)
        watch.round_ended()
        values.append(flow.log_prob)
    found = torch.stack(values)
    gap = (found.mean(0) - truth) / size
    return {
        "error": float(gap.abs().mean()),
        "bias": float(gap.mean()),
        "noise": float(found.std(0).mean()) / size,
        "evaluations": flow.evaluations,
        "points": len(x),
        **summary(Times(seconds, watch.loads())),
    }


def likelihood_rows(
    exact: GaussianMixture, network: ScoreModel, params: DiffusionParams
) -> list[Row]:
    """Return errors, noise and seconds of likelihoods by the flow, in nats for each dimension."""
    x = exact.sample(params.flow_points, seeded(15))
    truth = exact.log_prob(x)
    sources: list[tuple[str, Model, str, Trace]] = [
        (EXACT, ExactScores(exact), "trace of s2", learned_trace),
        *((LEARNED, network, name, trace) for name, trace in _flows(params).items()),
    ]
    return [
        {"mean": mean, "trace": name, **_flow_row(model, trace, x, truth, params)}
        for mean, model, name, trace in sources
    ]


def headline(frame: pd.DataFrame) -> dict[str, float]:
    """Return the mean gap of the network's bounds by covariance, at the fewest steps."""
    few = frame[(frame["steps"] == frame["steps"].min()) & (frame["mean"] == LEARNED)]
    means = few.groupby("covariance", sort=False)["gap"].mean().dropna()
    return {f"gap_{str(name).replace(' ', '_')}": float(value) for name, value in means.items()}


def run_study(params: DiffusionParams) -> dict[str, pd.DataFrame]:
    """Train the network, and return what was measured by the names of the files.

    Args:
        params: the section `diffusion` of params.yaml.
    """
    exact = law(params)
    network = train(params, exact)
    return {
        "steps": pd.DataFrame(step_rows(exact, network, params)),
        "seconds": pd.DataFrame(second_rows(exact, network, params)),
        "likelihood": pd.DataFrame(likelihood_rows(exact, network, params)),
    }
