"""The conversion of contexts and arguments to JSON types and back, on both sides."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.rpc import encoding
from ironic_lite.rpc.deadlines.deadlines import DeadlineContext


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
        return encoding.plain(entity) if self._encode else entity
