"""`python -m tests.simulate --seeds N --seed S`: that many days from seed S on, until one goes wrong.

`--nodes` runs the nodes' own code instead of the pure machine, `--jobs` so many processes at once. A failing
seed is printed with the shortest run that fails in the same way; `--mutate NAME` breaks a guard, to see that
it is found. `--groups` compares the algorithms for meetings of several instead.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from tests.simulate import groups, host, nodes, runs
from tests.simulate.world import STEPS

AT_ONCE = 100  # seeds that a process takes


def main() -> int:
    """Exit code 1 when an invariant was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many (default 2000)")
    parser.add_argument("--seed", type=int, default=0, help="the first (default 0)")
    parser.add_argument("--nodes", action="store_true", help="two nodes with all their code")
    parser.add_argument("--mutate", default="", choices=("", *host.MUTATIONS, *nodes.MUTATIONS))
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0 for one on each core (default 1)")
    parser.add_argument("--groups", action="store_true", help="compare the coordinators' algorithms")
    parser.add_argument("--agents", type=int, default=5, help="with --groups: how many meet (default 5)")
    asked = parser.parse_args()
    seeds = range(asked.seed, asked.seed + asked.seeds)
    if asked.groups:
        groups.report(seeds, asked.agents, print)
        return 0
    print(f"seeds {seeds[0]} to {seeds[-1]}", flush=True)
    began = time.monotonic()
    seed = failing(seeds, asked.mutate, asked.nodes, asked.jobs or os.cpu_count() or 1)
    if seed is not None:
        print(f"seed {seed} fails; the shortest run that does:")
        kept = runs.explain(seed, asked.mutate, print, nodes=asked.nodes)
        again = f"--seed {seed} --seeds 1" + (" --nodes" if asked.nodes else "")
        again += f" --mutate {asked.mutate}" if asked.mutate else ""
        print(f"{len(kept)} of {STEPS} steps; again: python -m tests.simulate {again}")
        return 1
    took, steps = time.monotonic() - began, STEPS * asked.seeds
    print(f"{steps:,} steps in {took:.1f} s, {steps / took:,.0f} a second: every invariant holds")
    return 0


def failing(seeds: range, mutation: str, nodes: bool, jobs: int) -> int | None:
    """The first seed that fails, of those that were tried; None for none."""
    parts = [seeds[at : at + AT_ONCE] for at in range(0, len(seeds), AT_ONCE)]
    if jobs == 1:
        found = (_failing(part, mutation, nodes) for part in parts)
        return next((seed for seed in found if seed is not None), None)
    with ProcessPoolExecutor(jobs) as pool:
        for seed in pool.map(_failing, parts, repeat(mutation), repeat(nodes)):
            if seed is not None:
                pool.shutdown(cancel_futures=True)
                return seed
    return None


def _failing(seeds: range, mutation: str, nodes: bool) -> int | None:
    return next((seed for seed in seeds if runs.failure(seed, mutation, nodes=nodes)), None)


if __name__ == "__main__":
    sys.exit(main())
