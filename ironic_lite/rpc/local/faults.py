"""What can go wrong on ``local://``, as oslo.messaging's callers expect it.

::

    oslo_messaging.MessagingException
    +- oslo_messaging.MessagingTimeout            no answer in time (raised as it is)
    +- oslo_messaging.MessageDeliveryFailure
    |  +- PeerAbsent                              nobody listens there: nothing was done
    |  +- PeerLost                                it went away before the answer: who knows
    |                                             what was done
    +- FrameTooLarge                              a message beyond the limit, of either side
    +- BadFrame                                   no message, or an answer without JSON form
"""

from __future__ import annotations

import oslo_messaging

from ironic_lite.rpc.local import options

_OPTION = f"[{options.GROUP}]frame_limit_mib"


class PeerAbsent(oslo_messaging.MessageDeliveryFailure):  # type: ignore[misc]
    """Nobody listens at this address; the message was not delivered."""


class PeerLost(oslo_messaging.MessageDeliveryFailure):  # type: ignore[misc]
    """The server went away while it had the call; nobody knows how far it came."""


class BadFrame(oslo_messaging.MessagingException):  # type: ignore[misc]
    """The bytes are no message of ours, or a value has no JSON form."""


class FrameTooLarge(oslo_messaging.MessagingException):  # type: ignore[misc]
    """A message of ``size`` bytes is beyond ``limit`` bytes; ``what`` is "request" or "answer".

    ``option`` is the one that says so.
    """

    def __init__(self, size: int, limit: int, what: str = "request", option: str = _OPTION) -> None:
        super().__init__(
            f"the {what} of {size / options.MIB:.1f} MiB is larger than the "
            f"{limit / options.MIB:g} MiB which {option} allows"
        )
        self.size = size
        self.limit = limit
        self.what = what
