"""Attention: the nodes that need a person, by cause, with the work under way beside them."""

NEEDS: tuple[str, ...] = ()
