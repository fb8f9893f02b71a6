"""Doctor: checks of the whole service and of a node, asked for by clients."""

NEEDS: tuple[str, ...] = ()
