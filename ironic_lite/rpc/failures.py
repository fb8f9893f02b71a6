"""The form of an error on the wire, for every transport.

oslo.messaging sends an exception as module, class, args and ``kwargs`` and rebuilds it if the
module is allowed. It would lose the error's facts and put a traceback into the text. Therefore
errors travel inside one carrier of this module: `errors.Error.as_data` when sent,
`errors.from_data` when received.
"""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.rpc import encoding


class Failure(Exception):
    """Carries the data of one error; oslo.messaging reads ``kwargs``."""

    def __init__(self, **data: object) -> None:
        super().__init__()
        self.kwargs = data

    def __str__(self) -> str:
        return f"{self.kwargs.get('code')}: {self.kwargs.get('text')}"


class Again(Exception):
    """A call was not begun, as its caller may have given up; the caller may repeat.

    ``kwargs``: ``host``, the conductor that asks, and ``at``, the time of its clock.
    """

    def __init__(self, *, host: str, at: float) -> None:
        super().__init__()
        self.kwargs: Json = {"host": host, "at": at}

    def __str__(self) -> str:
        return "nothing was begun, as the caller may have given up"


def pack(error: errors.Error) -> Failure:
    """Return the carrier of ``error``; a fact without JSON form becomes text."""
    return Failure(**_plain_data(error.as_data()))


def unpack(failure: Failure) -> errors.Error:
    """Return the service's error in ``failure``: same class, text and facts."""
    return errors.from_data(failure.kwargs)


def _plain_data(data: Json) -> Json:
    """Return the data of an error, and of its cause, in JSON types."""
    facts = {name: _plain_fact(fact) for name, fact in data["facts"].items()}
    cause = {"cause": _plain_data(data["cause"])} if "cause" in data else {}
    return {**data, "facts": facts, **cause}


def _plain_fact(fact: object) -> Any:
    try:
        return encoding.plain(fact)
    except TypeError:
        return str(fact)
