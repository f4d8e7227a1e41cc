"""The agent runtime: who speaks (HUMAN), what job they do (TEAM), how the model runs (AGENT)."""
