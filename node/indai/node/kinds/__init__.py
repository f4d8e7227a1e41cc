"""What this node does for each kind of intent: `base` says what a module has, `served` which there are."""
