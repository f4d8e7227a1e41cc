"""What an agent remembers: it finds, it forgets, and it never crosses a scope."""
