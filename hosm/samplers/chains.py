r"""Running Markov chains: draws, burn-in, divergence, progress, interruption, annealed starts.

A chain is a kernel's `step` repeated (see `hosm.samplers.metropolis`). A long run goes on where it
was interrupted, bit for bit, from its file (`checkpoint`), and calls a function after each
transition (`progress`); with tqdm, for example,

    with tqdm(total=burn_in + steps * thin) as bar:
        sample_chain(kernel, x0, steps, burn_in, thin=thin, progress=lambda i, info: bar.update())

A chain that diverges ends in an error that names the remedy, unless `diverged="keep"`.

Annealing starts chains where a distribution of many modes has its mass: they follow the
distributions of x + sigma z for decreasing sigma, each of which has lower barriers than the next
(Song and Ermon, "Generative Modeling by Estimating Gradients of the Data Distribution", NeurIPS
2019, algorithm 1).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Generator, Tensor

from hosm.checks import check_choice, check_count, check_generator, check_number, checked
from hosm.io import write_whole
from hosm.samplers.metropolis import ChainInfo, Kernel

__all__ = ["anneal", "sample_chain"]

TRANSITIONS_BETWEEN_CHECKS = 64  # transitions between two looks at whether the chains are finite
Progress = Callable[[int, ChainInfo], None]


@torch.no_grad()
def sample_chain(
    kernel: Kernel,
    x0: Tensor,
    steps: int,
    burn_in: int = 0,
    generator: Generator | None = None,
    *,
    thin: int = 1,
    progress: Progress | None = None,
    diverged: str = "raise",
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1000,
) -> Tensor:
    """Run the chains from x0 and keep every `thin`-th point after the burn-in.

    Args:
        kernel: the transition.
        x0: starting points, finite, shape (n, D).
        steps: number of draws kept per chain.
        burn_in: transitions before those that count.
        generator: source of the noise, on the device of x0.
        thin: transitions per draw.
        progress: called after each transition with its number, from 1, and its info.
        diverged: "raise" ends a run whose chains are no longer finite, within 64 transitions;
            "keep" goes on, and their draws are not finite.
        checkpoint: a file of draws, points and generator. If it exists, the run goes on from
            there, to the draws of one that was not interrupted.
        checkpoint_every: transitions between two writings; the end is written too.

    Returns:
        The draws, shape (n, steps, D).

    Raises:
        ValueError: if x0 is not a finite matrix, a count is out of range, the generator is on
            another device or missing for a checkpoint, or the checkpoint is damaged or of another
            run.
        FloatingPointError: if a chain diverges and `diverged` is "raise".
    """
    checked("x0", x0, "n", "D")
    check_generator(generator, x0.device)
    check_choice("diverged", diverged, ("raise", "keep"))
    counts = {"steps": steps, "burn_in": burn_in, "thin": thin}
    for name, count in (*counts.items(), ("checkpoint_every", checkpoint_every)):
        check_count(name, count, 0 if name == "burn_in" else 1)
    total, done, start = burn_in + steps * thin, 0, x0
    draws = x0.new_empty(x0.shape[0], steps, x0.shape[1])
    kept = _Checkpoint(checkpoint, x0, counts, generator) if checkpoint is not None else None
    if kept is not None and kept.path.exists():
        done, start = kept.read(draws)
    for i, x, info in _transitions(kernel, start, (done, total, checkpoint_every), generator):
        draw, rest = divmod(i - burn_in, thin)
        if draw > 0 and rest == 0:
            draws[:, draw - 1] = x
        if progress is not None:
            progress(i, info)
        if diverged == "raise" and (i % TRANSITIONS_BETWEEN_CHECKS == 0 or i == total):
            _check_finite(x, i, kernel)
        if kept is not None and (i % checkpoint_every == 0 or i == total):
            kept.write(i, x, draws[:, : max(draw, 0)])
    return draws


def _transitions(
    kernel: Kernel, x: Tensor, span: tuple[int, int, int], generator: Generator | None
) -> Iterator[tuple[int, Tensor, ChainInfo]]:
    """Yield number, points and info of each transition from x on.

    Args:
        kernel: the transition.
        x: the points, shape (n, D).
        span: transitions done, and at the end; and between two at which the generator must be
            that of the last transition, which no walk passes.
        generator: source of the noise.
    """
    i, total, every = span
    state = kernel.init(x)
    while i < total:
        room = min(total, (i // every + 1) * every) - i
        if kernel.walk is not None and kernel.draw is not None and room >= kernel.length:
            noises = [kernel.draw(state.x, generator) for _ in range(kernel.length)]
            state, infos = kernel.walk(state, noises)
            for info in infos:
                i += 1
                yield i, info.x, info
        else:
            state, info = kernel.step(state, generator)
            i += 1
            yield i, state.x, info


def _check_finite(x: Tensor, transitions: int, kernel: Kernel) -> None:
    """Raise FloatingPointError if a chain is not at a finite point."""
    lost = int((~x.isfinite().all(-1)).sum())
    if lost:
        raise FloatingPointError(
            f"{lost} of {len(x)} chains diverged within {transitions} transitions; "
            f"take {kernel.remedy}, or keep them with diverged='keep'"
        )


class _Checkpoint:
    """The file of an interrupted run: draws so far, points, generator, and whose they are."""

    def __init__(
        self, path: str | Path, x0: Tensor, counts: dict[str, int], generator: Generator | None
    ) -> None:
        if generator is None:
            raise ValueError("generator must be given for a checkpoint, got None")
        start = hashlib.sha256(x0.detach().cpu().contiguous().numpy().tobytes()).hexdigest()
        shape, dtype = list(x0.shape), str(x0.dtype)
        self.path, self.generator, self.device = Path(path), generator, x0.device
        self.about = json.dumps({**counts, "x0": start, "shape": shape, "dtype": dtype})

    def write(self, done: int, x: Tensor, draws: Tensor) -> None:
        """Write what has been done: `done` transitions, up to x (n, D), draws (n, k, D)."""
        tensors = {"x": x, "draws": draws, "generator": self.generator.get_state()}
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        data = save(tensors, {"run": self.about, "done": str(done)})
        write_whole(data, self.path, 0o600)

    def read(self, draws: Tensor) -> tuple[int, Tensor]:
        """Fill draws, set the generator; return the transitions done and the points."""
        try:
            with safe_open(self.path, "pt") as file:
                about, x = file.metadata() or {}, file.get_tensor("x")
                known, noise = file.get_tensor("draws"), file.get_tensor("generator")
        except (OSError, SafetensorError) as error:
            raise ValueError(
                f"checkpoint must be a whole file, got {self.path}, which is damaged: {error}"
            ) from error
        if about.get("run") != self.about:
            raise ValueError(
                f"checkpoint must be a new file or one of the run {self.about}, "
                f"got {self.path} of {about.get('run')}"
            )
        draws[:, : known.shape[1]] = known.to(self.device)
        self.generator.set_state(noise)
        return int(about["done"]), x.to(self.device)


def anneal(
    kernel_at: Callable[[float], Kernel],
    sigmas: Sequence[float],
    x0: Tensor,
    steps: int,
    generator: Generator | None = None,
) -> Tensor:
    """Return starting points for chains, shape (n, D), from the laws of decreasing noise.

    Args:
        kernel_at: from sigma to a kernel for the law of x + sigma z; a step size in proportion to
            sigma^2 suits each (Song and Ermon 2019, algorithm 1).
        sigmas: noise scales, positive, each below the one before; the first about the distance
            of modes.
        x0: where to begin, for example draws of N(0, sigmas[0]^2 I), shape (n, D).
        steps: transitions at each scale.
        generator: source of the noise, on the device of x0.

    Raises:
        ValueError: if the scales are not positive and decreasing, or as in `sample_chain`.
        FloatingPointError: if a chain diverges.
    """
    for sigma in sigmas:
        check_number("sigma", sigma)
    if not sigmas or any(b >= a for a, b in zip(sigmas, sigmas[1:], strict=False)):
        raise ValueError(f"sigmas must be one or more, each below the last, got {list(sigmas)}")
    x = x0
    for sigma in sigmas:
        x = sample_chain(kernel_at(sigma), x, 1, steps - 1, generator)[:, 0]
    return x
