"""Goals: what an owner wants kept up over time, and what the agent does for it unasked, behind gates."""
