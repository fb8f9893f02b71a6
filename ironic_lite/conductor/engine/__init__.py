"""The engine: work on nodes under their locks, and the lists of steps that it runs."""
