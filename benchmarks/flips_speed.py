"""Hidden units of flips, forward and backward: the compiled pass beside torch, on one thread."""

from __future__ import annotations

import argparse
import time

import torch

from deltaai.conditionals.flips import flipped_units
from measure import header

# Variables, inputs, hidden units and columns: of the MNIST pyramid, and of lattices in `fit`.
SIZES = {
    "latents of the pyramid": (96, 75, 32, 48),
    "pixels of the pyramid": (784, 12, 16, 48),
    "32 x 32 lattice": (1024, 25, 16, 64),
    "8 x 8 lattice": (64, 9, 16, 256),
}


def seconds(sizes, activation, is_compiled):
    variables, inputs, hidden, batch = sizes
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator)

    before, first = normal(variables, hidden, batch), normal(variables, hidden, inputs)
    moves, last = normal(variables, inputs, batch), normal(variables, 1, hidden)
    learned = [value.requires_grad_() for value in (before, first, last)]
    started = time.process_time()
    moved = flipped_units(before, first, moves, last, activation, is_compiled=is_compiled)
    torch.autograd.grad(moved.sum(), learned)
    return time.process_time() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Flips, forward and backward")
    print("| sizes | units, M | function | torch, ms | compiled, ms | torch / compiled |")
    print("|---|---|---|---|---|---|")
    for name, sizes in SIZES.items():
        units = torch.Size(sizes).numel() / 1e6
        for activation in ("tanh", "silu"):
            turns = [
                [seconds(sizes, activation, is_compiled) for is_compiled in (False, True)]
                for _ in range(options.turns + 1)
            ][1:]
            ratios = sorted(plain / compiled for plain, compiled in turns)
            middle = [1e3 * sorted(each)[len(each) // 2] for each in zip(*turns, strict=True)]
            print(
                f"| {name} | {units:.1f} | {activation} | {middle[0]:.1f} | {middle[1]:.1f} | "
                f"{ratios[len(ratios) // 2]:.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f}) |"
            )


if __name__ == "__main__":
    main()
