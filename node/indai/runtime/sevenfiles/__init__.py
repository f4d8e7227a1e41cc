"""Concierges that were written as seven files, brought into tiers."""
