"""Errors of transports over sockets, in the form that oslo.messaging's callers expect.

::

    oslo_messaging.MessagingException
    +- oslo_messaging.MessagingTimeout            no answer in time (raised as it is)
    +- oslo_messaging.MessageDeliveryFailure
    |  +- PeerAbsent                              no server listens there: nothing was done
    |  +- PeerLost                                it went away before the answer: it may have done
    |                                             any part of the call
    +- FrameTooLarge                              a message over the limit of either side
    +- NoServerNamed                              the transport cannot reach an unnamed server
    +- BadFrame                                   not a message, or an answer without JSON form
"""

from __future__ import annotations

import oslo_messaging

from ironic_lite.rpc.sockets import options

_OPTION = f"[{options.GROUP}]frame_limit_mib"


class PeerAbsent(oslo_messaging.MessageDeliveryFailure):  # type: ignore[misc]
    """No server listens at this address; the message was not delivered."""


class PeerLost(oslo_messaging.MessageDeliveryFailure):  # type: ignore[misc]
    """The server went away during the call; it may have done any part of it."""


class NoServerNamed(oslo_messaging.MessagingException):  # type: ignore[misc]
    """The transport reaches servers by their names only."""


class BadFrame(oslo_messaging.MessagingException):  # type: ignore[misc]
    """The bytes are not a message of this transport, or a value has no JSON form."""


class FrameTooLarge(oslo_messaging.MessagingException):  # type: ignore[misc]
    """A message of ``size`` bytes exceeds ``limit`` bytes.

    ``what`` is "request" or "answer"; ``option`` sets the limit.
    """

    def __init__(self, size: int, limit: int, what: str = "request", option: str = _OPTION) -> None:
        super().__init__(
            f"the {what} of {size / options.MIB:.1f} MiB is larger than the "
            f"{limit / options.MIB:g} MiB which {option} allows"
        )
        self.size = size
        self.limit = limit
        self.what = what


def reason(why: OSError) -> str:
    """Return the words of an error of the system."""
    return why.strerror or str(why)
