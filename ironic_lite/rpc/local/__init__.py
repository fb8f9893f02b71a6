"""The ``local://`` transport: oslo.messaging over Unix sockets on one machine.

``local:///var/lib/ironic-lite/rpc`` names a directory. Each server listens on a socket in it, and a
client connects to the socket of the server it wants. So there is no broker, and a dead server shows
as a refused connection. `addresses` defines the paths of the sockets; `driver` is the class
oslo.messaging loads. ``rpc.sockets`` has the two ends of a connection.
"""

from __future__ import annotations

from ironic_lite.rpc.local.driver import LocalDriver

__all__ = ["LocalDriver"]
