"""Finds the frame of the embedding model: `python -m bench.memory.calibrate` writes `frame.npy`.

The vectors of multilingual-e5 lie in a narrow cone, and part of what is left tells the language of a text
rather than its meaning. From sentences that say the same in several languages come the means of passages
and of questions, and the directions in which the means of languages differ (after Yang et al. 2021,
arXiv:2109.04727). The program takes the means off every vector, and those directions out of it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import numpy.typing as npt
from indai.memory import embedding

HERE = Path(__file__).parent
Rows = npt.NDArray[np.float32]


def main() -> None:
    """Write the file beside the embedder."""
    frame = asyncio.run(_frame())
    np.save(Path(embedding.__file__).with_name(embedding.FRAME[0]), frame.astype(np.float16))


async def _frame() -> Rows:
    means, directions = [], []
    for kind in ("p", "q"):
        rows = _sentences(kind)
        languages = max(map(len, rows))
        # All sentences in the three main languages, then the ones that all have in each of the others.
        full = [row for row in rows if len(row) == languages]
        pivots = {column: await _mean([row[column] for row in rows], kind) for column in range(3)}
        centre = np.mean(list(pivots.values()), axis=0)
        anchor = np.mean([await _mean([row[column] for row in full], kind) for column in range(3)], axis=0)
        others = [await _mean([row[column] for row in full], kind) - anchor for column in range(3, languages)]
        means.append(centre)
        directions += [mean - centre for mean in pivots.values()] + others
    _, sizes, axes = np.linalg.svd(np.stack(directions), full_matrices=False)
    kept = axes[: int(np.searchsorted(np.cumsum(sizes**2) / np.sum(sizes**2), 0.95)) + 1]
    return np.concatenate([np.stack(means), kept]).astype(np.float32)


def _sentences(kind: str) -> list[list[str]]:
    lines = (HERE / "parallel.tsv").read_text("utf-8").splitlines()
    return [line.split("\t")[1:] for line in lines if line.startswith(f"{kind}\t")]


async def _mean(texts: list[str], kind: str) -> Rows:
    raw = embedding.LocalEmbedder(frame=None)
    rows = np.asarray(await raw.embed(texts, query=kind == "q"), dtype=np.float32)
    raw.close()
    mean: Rows = rows.mean(axis=0)
    return mean


if __name__ == "__main__":
    main()
