"""Ratios measured in one run on one machine: `python -m bench`. See docs/benchmarks.md."""
