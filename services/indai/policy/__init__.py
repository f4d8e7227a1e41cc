"""Owner rules compiled to Cedar: decisions, explanations, simulation."""
