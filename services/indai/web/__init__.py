"""What every page here is made of: one look, sign-in, sessions, guards, languages, live updates."""
