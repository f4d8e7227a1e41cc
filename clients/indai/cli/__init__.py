"""The `indai` command."""
