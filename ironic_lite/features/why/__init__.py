"""Why: the reason of a node's state, and what its caller can do about it."""

NEEDS: tuple[str, ...] = ()
