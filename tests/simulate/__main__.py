"""`python -m tests.simulate --seeds N --seed S`: that many days from seed S on, until one goes wrong.

A failing seed is printed with the shortest run that fails in the same way; `--mutate NAME` breaks a guard.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulate import runs
from tests.simulate.host import MUTATIONS
from tests.simulate.world import STEPS


def main() -> int:
    """Exit code 1 when an invariant was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many (default 2000)")
    parser.add_argument("--seed", type=int, default=0, help="the first (default 0)")
    parser.add_argument("--mutate", default="", choices=("", *MUTATIONS), help="break this guard")
    asked = parser.parse_args()
    print(f"seeds {asked.seed} to {asked.seed + asked.seeds - 1}")
    began, steps = time.monotonic(), 0
    for seed in range(asked.seed, asked.seed + asked.seeds):
        if runs.failure(seed, asked.mutate):
            print(f"seed {seed} fails; the shortest run that does:")
            kept = runs.explain(seed, asked.mutate, print)
            again = f"--seed {seed} --seeds 1" + (f" --mutate {asked.mutate}" if asked.mutate else "")
            print(f"{len(kept)} of {STEPS} steps; again: python -m tests.simulate {again}")
            return 1
        steps += STEPS
    took = time.monotonic() - began
    print(f"{steps} steps in {took:.1f} s, {steps / took:.0f} a second: every invariant holds")
    return 0


sys.exit(main())
