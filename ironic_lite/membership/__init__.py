"""Living conductors, and the conductor that owns a node."""
