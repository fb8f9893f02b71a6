"""Batches: one request for many nodes, in waves, with a bounded number of failures."""

NEEDS: tuple[str, ...] = ()
