"""The node: peers, threads, negotiation, calendars, jobs and the composition root."""
