"""The encoding of values between processes, for all transports.

Plain JSON is allowed: None, bool, int of 64 bits, float, str, list, and dict with str keys. Beyond
that, orjson writes datetimes as ISO 8601 strings (naive ones are UTC and get ``+00:00``), UUIDs as
strings, enums as their values and dataclasses as dicts. **Nothing converts them back**: the
receiver gets the string, so a contract types such an argument as ``str``.
"""

from __future__ import annotations

import json
from typing import Any

import orjson
import oslo_messaging

from ironic_lite import errors
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.rpc.deadlines import DeadlineContext

OPTIONS = orjson.OPT_NAIVE_UTC


def dumps(value: object) -> bytes:
    """Return ``value`` as JSON. Raises TypeError for a value that has no JSON form."""
    return orjson.dumps(value, option=OPTIONS)


def loads(data: bytes | bytearray | memoryview) -> Any:
    """Return the value of the JSON ``data``. Raises ValueError if it is not JSON."""
    return orjson.loads(data)


def plain(value: object) -> Any:
    """Return ``value`` as the other side receives it. Raises TypeError as `dumps`."""
    return orjson.loads(orjson.dumps(value, option=OPTIONS))


def enveloped(value: object) -> int:
    """Return the size in bytes of ``value`` in a broker's message.

    oslo.messaging sends JSON as a string within JSON, in ASCII. Quotes, backslashes and non-ASCII
    characters take more bytes there.

    :raises TypeError: it has no JSON form.
    """
    text = json.dumps(plain(value))
    return len(text) + text.count('"') + text.count("\\")


class Serializer(oslo_messaging.NoOpSerializer):  # type: ignore[misc]
    """Converts contexts to dicts, and all other values by `encoding`."""

    def __init__(self, *, encode: bool) -> None:
        """Set ``encode`` if values are encoded here, not by the transport or the server."""
        self._encode = encode

    def serialize_context(self, ctxt: Context | DeadlineContext) -> Json:
        """Return the context as plain JSON types."""
        return ctxt.as_dict()

    def deserialize_context(self, ctxt: Json) -> Context:
        """Return the Context of the dict ``ctxt``."""
        return Context.from_dict(ctxt)

    def serialize_entity(self, ctxt: object, entity: object) -> Any:
        """Return a value as plain JSON types. Raises TypeError if it has no JSON form."""
        return plain(entity) if self._encode else entity


# The form of an error on the wire, for every transport.
#
# oslo.messaging sends an exception as module, class, args and ``kwargs`` and rebuilds it if the
# module is allowed. It would lose the error's facts and put a traceback into the text. Therefore
# errors travel inside one carrier of this module: `errors.Error.as_data` when sent,
# `errors.from_data` when received.


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
        return plain(fact)
    except TypeError:
        return str(fact)
