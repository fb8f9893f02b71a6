"""Webhooks: receivers to which conductors send events, signed and at least once."""

NEEDS: tuple[str, ...] = ("events",)
