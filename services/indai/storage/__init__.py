"""Postgres: embedded server, pool, migrations. Below every service with a table."""
