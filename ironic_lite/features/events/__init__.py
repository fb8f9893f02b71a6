"""Events: the feed of all changes, as pages and as streams."""

NEEDS: tuple[str, ...] = ()
