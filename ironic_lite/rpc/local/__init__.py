"""The ``local://`` transport: oslo.messaging over Unix sockets on one machine.

``local:///var/lib/ironic-lite/rpc`` names a directory. Each server listens on a socket in it, and a
client connects to the socket of the server it wants. So there is no broker, and a dead server shows
as a refused connection. `frames` defines the bytes on a socket and `addresses` the paths of the
sockets. `sender` and `listener` are the two ends; `driver` is the class oslo.messaging loads.
"""

from __future__ import annotations

from ironic_lite.rpc.local.driver import LocalDriver

__all__ = ["LocalDriver"]
