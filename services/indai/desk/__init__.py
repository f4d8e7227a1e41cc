"""Desks: where people see and steer their agents, in a browser."""
