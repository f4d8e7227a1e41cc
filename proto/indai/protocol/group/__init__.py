"""Meetings of three or more: the coordinator, and the algorithms by which it finds a slot."""
