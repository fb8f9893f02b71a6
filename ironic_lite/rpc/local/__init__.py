"""The ``local://`` transport: an oslo.messaging driver over unix sockets, for one machine.

``local:///var/lib/ironic-lite/rpc`` names a directory. Each server listens on a socket in it; a
client connects to the socket of the server it wants, so there is no broker, and a dead server is
a refused connection. `frames` says what goes over a socket, `addresses` where the sockets are,
`sender` and `listener` are the two ends, `driver` is what oslo.messaging loads.
"""

from __future__ import annotations

from ironic_lite.rpc.local.driver import LocalDriver

__all__ = ["LocalDriver"]
