"""Search: nodes by names, serial numbers, MAC and BMC addresses, owners and other texts."""

NEEDS: tuple[str, ...] = ()
