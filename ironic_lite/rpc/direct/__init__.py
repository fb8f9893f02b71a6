"""The ``direct://`` transport: oslo.messaging over TCP and TLS, without a broker.

A conductor listens at a TCP port of its machine, and its name is its address: a client connects to
``[DEFAULT]host`` of the conductor. Both sides show a certificate of the operator's own authority.
`addresses` finds the address of a name, `tcp` makes sockets, `tls` encrypts, `credentials` reads
the certificates, and `driver` is the class oslo.messaging loads. ``rpc.sockets`` has the two ends
of a connection.
"""

from __future__ import annotations

from ironic_lite.rpc.direct.driver import DirectDriver

__all__ = ["DirectDriver"]
