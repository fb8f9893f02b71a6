"""Move in: what an operator needs to change from Ironic to this service, and to check it."""

NEEDS: tuple[str, ...] = ()
