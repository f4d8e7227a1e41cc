"""Who talks to whose agent: people and their identities, sessions over all channels, turns one at a time."""
