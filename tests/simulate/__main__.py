"""`python -m tests.simulate --seeds N --seed S`: that many days from seed S on, until one goes wrong.

`--nodes` runs the nodes' own code instead of the pure machine. A failing seed is printed with the shortest
run that fails in the same way; `--mutate NAME` breaks a guard, to see that it is found.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulate import host, nodes, runs
from tests.simulate.world import STEPS


def main() -> int:
    """Exit code 1 when an invariant was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many (default 2000)")
    parser.add_argument("--seed", type=int, default=0, help="the first (default 0)")
    parser.add_argument("--nodes", action="store_true", help="two nodes with all their code")
    parser.add_argument("--mutate", default="", choices=("", *host.MUTATIONS, *nodes.MUTATIONS))
    asked = parser.parse_args()
    print(f"seeds {asked.seed} to {asked.seed + asked.seeds - 1}")
    began = time.monotonic()
    for seed in range(asked.seed, asked.seed + asked.seeds):
        if runs.failure(seed, asked.mutate, nodes=asked.nodes):
            print(f"seed {seed} fails; the shortest run that does:")
            kept = runs.explain(seed, asked.mutate, print, nodes=asked.nodes)
            again = f"--seed {seed} --seeds 1" + (" --nodes" if asked.nodes else "")
            again += f" --mutate {asked.mutate}" if asked.mutate else ""
            print(f"{len(kept)} of {STEPS} steps; again: python -m tests.simulate {again}")
            return 1
    took, steps = time.monotonic() - began, STEPS * asked.seeds
    print(f"{steps} steps in {took:.1f} s, {steps / took:.0f} a second: every invariant holds")
    return 0


sys.exit(main())
