"""States, verbs, steps and other rules of the domain, as pure functions and tables."""
