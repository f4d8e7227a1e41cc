"""An owner's plain rules, compiled to Cedar: permit, refuse or ask, with the reason."""
