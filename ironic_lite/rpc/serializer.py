"""What oslo.messaging does to contexts and arguments on their way, on both sides."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from ironic_lite.context import Context
from ironic_lite.rpc import encoding
from ironic_lite.rpc.patience import Noted


class Serializer(oslo_messaging.NoOpSerializer):  # type: ignore[misc]
    """Contexts cross as dicts, all else as `encoding` says."""

    def __init__(self, *, encode: bool) -> None:
        """``encode`` values here, unless somebody else does: local:// or the server."""
        self._encode = encode

    def serialize_context(self, ctxt: Context | Noted) -> dict[str, Any]:
        """Return the context as plain JSON types."""
        return ctxt.as_dict()

    def deserialize_context(self, ctxt: dict[str, Any]) -> Context:
        """Return the Context of the dict ``ctxt``."""
        return Context.from_dict(ctxt)

    def serialize_entity(self, ctxt: Any, entity: Any) -> Any:
        """Return an argument or a result as plain JSON types. Raises TypeError if it has none."""
        return encoding.plain(entity) if self._encode else entity
