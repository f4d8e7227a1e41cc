"""`python -m tests.hammer`: kill writers and Postgres at random, for as many cycles as one likes.

    python -m tests.hammer --cycles 5000            # a fresh seed, printed
    python -m tests.hammer --cycles 5000 --seed 42  # that run again, as far as a kill can be repeated

It needs the project's roots in PYTHONPATH, as the tests have them. Status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.hammer.cycles import Hammer, without_replay_row
from tests.hammer.writer import ANSWER_BEFORE_COMMIT

FAULTS = {ANSWER_BEFORE_COMMIT: None, "no-replay-row": without_replay_row}


def main() -> int:
    """Run the cycles, judge every hundred, and say so."""
    parser = argparse.ArgumentParser(prog="python -m tests.hammer", description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--fault", choices=sorted(FAULTS), default="", help="break it on purpose")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="indai-hammer-") as folder:
        home = Path(folder)
        home.chmod(0o711)
        hammer, began = Hammer(home, arguments.seed, arguments.fault), time.monotonic()
        hammer.start(FAULTS.get(arguments.fault))
        try:
            for done in range(0, arguments.cycles, 100):
                hammer.cycles(min(100, arguments.cycles - done))
                wrong = hammer.judge()
                alive = f"{len(hammer.acknowledged)} acknowledged, {hammer.deaths}"
                print(f"{time.monotonic() - began:7.1f} s  {alive}  {wrong or 'sound'}", flush=True)
                if wrong:
                    return 1
        finally:
            hammer.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
