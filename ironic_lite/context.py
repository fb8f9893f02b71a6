"""Who asks, and under which request id: carried from the HTTP request into every run and event."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """One request's identity.

    ``request_id`` is ``req-<UUID>`` as in the answer's headers; ``user`` is None for anonymous
    callers.
    """

    request_id: str
    user: str | None = None
    project: str | None = None
    roles: tuple[str, ...] = ()
    global_request_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON types, for the wire between the processes."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Context:
        """Rebuild a context; keys of a newer sender are ignored, so that versions can be mixed."""
        known = {field.name for field in dataclasses.fields(cls)}
        kept = {key: value for key, value in data.items() if key in known}
        kept["roles"] = tuple(kept.get("roles") or ())
        return cls(**kept)


_FIELDS = tuple(field.name for field in dataclasses.fields(Context))


def new_request_id() -> str:
    """Return a fresh ``req-<UUID>``."""
    return f"req-{uuid.uuid4()}"


def internal(what: str) -> Context:
    """Return the context of work nobody asked for over HTTP, such as a sweep named ``what``."""
    return Context(request_id=new_request_id(), user=f"conductor:{what}")
