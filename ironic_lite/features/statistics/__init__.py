"""Statistics: durations and failures of ended steps, and numbers of nodes by their fields."""

NEEDS: tuple[str, ...] = ()
