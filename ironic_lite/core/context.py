"""Identity and ID of a request, carried from HTTP into every run and event."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading

from ironic_lite.core.json_types import Json


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """One request's identity.

    ``request_id`` is ``req-<UUID>`` as in the response headers; ``user`` is None for anonymous
    clients. ``background`` is True if no client waits for the work, which then leaves the reserve
    of workers free. ``owners`` are the UUID, owner and lessee of the node
    for which the caller's rights were checked; None if the rights do not depend on them.
    """

    request_id: str
    user: str | None = None
    project: str | None = None
    roles: tuple[str, ...] = ()
    global_request_id: str | None = None
    background: bool = False
    owners: tuple[str, str | None, str | None] | None = None

    def as_dict(self) -> Json:
        """Return plain JSON types, for the wire between the processes."""
        return {name: getattr(self, name) for name in _FIELDS}

    def recorded(self) -> Json:
        """Return the columns of an event that name the caller and the request."""
        return {
            "requester": self.user,
            "project": self.project,
            "request_id": self.request_id,
        }

    def logged(self) -> Json:
        """Return the values for log formats, under oslo.log's names."""
        return {
            "request_id": self.request_id,
            "global_request_id": self.global_request_id or "",
            "user": self.user,
            "project": self.project,
            "user_name": self.user or "-",
            "project_name": self.project or "",
        }

    @classmethod
    def from_dict(cls, data: Json) -> Context:
        """Rebuild a context; keys of a newer sender are ignored for mixed versions."""
        kept = {name: data[name] for name in _FIELDS if name in data}
        kept["roles"] = tuple(kept.get("roles") or ())
        if kept.get("owners"):
            kept["owners"] = tuple(kept["owners"])
        return cls(**kept)


_FIELDS = tuple(field.name for field in dataclasses.fields(Context))


def new_request_id() -> str:
    """Return a fresh ``req-<UUID>``.

    The UUID is of version 4 (RFC 9562). `uuid.uuid4` takes twice the time, because of its object.
    """
    digits = os.urandom(16).hex()
    most = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}"
    return f"req-{most}-8{digits[17:20]}-{digits[20:]}"


def internal(what: str) -> Context:
    """Return the context of internal work, such as a sweep named ``what``."""
    return Context(request_id=new_request_id(), user=f"conductor:{what}")


# -- in which request a thread is at work --------------------------------------------------------

_HERE = threading.local()


def current() -> Context | None:
    """Return the context of this thread's work, None if unset."""
    return getattr(_HERE, "context", None)


def enter(context: Context | None) -> Context | None:
    """Set the context of this thread's work; return the previous one."""
    before, _HERE.context = current(), context
    return before


class LogFilter(logging.Filter):
    """Adds the current context to each log record, for the formats of oslo.log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        found = current()
        if found is not None and not hasattr(record, "context"):
            record.context = found.logged()
        return True
