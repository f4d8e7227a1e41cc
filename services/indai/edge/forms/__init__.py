"""An agent's markdown in the form that each channel shows."""
