"""Finds the obvious facts of a turn without a model: who, what they like, where, when, in three languages."""

from indai.memory.extraction.contradiction import contradicts
from indai.memory.extraction.extractor import DeterministicExtractor, extract

__all__ = ["DeterministicExtractor", "contradicts", "extract"]
