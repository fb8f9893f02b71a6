"""Erasure records: signed evidence of what an erasing step did to each disk."""

NEEDS: tuple[str, ...] = ()
