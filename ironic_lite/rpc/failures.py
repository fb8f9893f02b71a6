"""How an error of ours crosses the wire, whatever the transport.

oslo.messaging sends an exception as module, class, args and ``kwargs`` and rebuilds it if the
module is allowed. It would lose our facts and put a traceback into the text, so errors travel
inside one carrier of this module: `errors.Error.as_data` on the way out, `errors.from_data` on
the way in.
"""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.rpc import encoding


class Failure(Exception):
    """Carries the data of one error; ``kwargs`` is the name oslo.messaging looks for."""

    def __init__(self, **data: Any) -> None:
        super().__init__()
        self.kwargs = data

    def __str__(self) -> str:
        return f"{self.kwargs.get('code')}: {self.kwargs.get('text')}"


class Again(Exception):
    """Says that a call was not begun, as its caller may have given up; one that waits repeats it.

    ``kwargs``: ``host``, which asks, and ``at``, what its clock said.
    """

    def __init__(self, *, host: str, at: float) -> None:
        super().__init__()
        self.kwargs: dict[str, Any] = {"host": host, "at": at}

    def __str__(self) -> str:
        return "nothing was begun, as nobody may wait for it any more"


def pack(error: errors.Error) -> Failure:
    """Return the carrier of ``error``; a fact without JSON form crosses as its text."""
    data = error.as_data()
    data["facts"] = {name: _plain(fact) for name, fact in data["facts"].items()}
    return Failure(**data)


def unpack(failure: Failure) -> errors.Error:
    """Return the error of ours that ``failure`` carries: same class, text and facts."""
    return errors.from_data(failure.kwargs)


def _plain(fact: Any) -> Any:
    try:
        return encoding.plain(fact)
    except TypeError:
        return str(fact)
