"""Schemas of webhooks and of their deliveries that were put aside."""

from __future__ import annotations

from ironic_lite.api.openapi import parts
from ironic_lite.core.json_types import Json
from ironic_lite.domain.webhooks import State

_TEXT: Json = {"type": "string"}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}
_NUMBER_OR_NULL: Json = {"type": ["integer", "null"]}
_LIST_OR_NULL: Json = {"type": ["array", "null"], "items": _TEXT}
_WEBHOOK: Json = {
    **dict.fromkeys(("uuid", "url", "secret", "cursor", "created_at"), _TEXT),
    **dict.fromkeys(("failing_since", "last_error", "created_by", "updated_at"), _TEXT_OR_NULL),
    **dict.fromkeys(("kinds", "nodes"), _LIST_OR_NULL),
    "state": {"enum": [str(state) for state in State]},
    "last_status": _NUMBER_OR_NULL,
}
_FAILED: Json = {
    **dict.fromkeys(("first", "last", "at"), _TEXT),
    "id": {"type": "integer"},
    "status": _NUMBER_OR_NULL,
    "answer": _TEXT_OR_NULL,
}

WEBHOOK = parts.object_with_all(**_WEBHOOK)
WEBHOOKS = parts.object_with_all(webhooks={"type": "array", "items": WEBHOOK})
FAILED = parts.object_with_all(failed={"type": "array", "items": parts.object_with_all(**_FAILED)})
