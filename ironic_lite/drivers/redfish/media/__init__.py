"""Virtual media."""
