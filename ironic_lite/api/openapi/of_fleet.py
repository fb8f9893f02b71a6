"""Schemas of answers about the whole fleet, and about the caller."""

from __future__ import annotations

from ironic_lite.api.openapi import parts
from ironic_lite.core.json_types import Json

_TEXT: Json = {"type": "string"}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}


def _object_with_all(**properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


WHOAMI: Json = _object_with_all(
    auth={"enum": ["noauth", "http_basic", "keystone"]},
    user=_TEXT_OR_NULL,
    project=_TEXT_OR_NULL,
    roles=parts.STRINGS,
    system={"type": "boolean"},
    expires_at={"type": ["string", "null"], "format": "date-time"},
    rules=parts.STRINGS,
    own_rules=parts.STRINGS,
    release=_TEXT,
    version=_TEXT,
    window=_TEXT_OR_NULL,
)

_SECONDS: Json = {"type": ["number", "null"]}
STEP_STATISTICS: Json = _object_with_all(
    steps={
        "type": "array",
        "items": _object_with_all(
            **dict.fromkeys(("interface", "step", "kind"), _TEXT),
            **dict.fromkeys(("driver", "resource_class"), _TEXT_OR_NULL),
            **{name: {"type": "integer"} for name in ("count", "failed", "aborted")},
            codes={"type": "object", "additionalProperties": {"type": "integer"}},
            **dict.fromkeys(("p50", "p90", "p99", "longest"), _SECONDS),
        ),
    },
    of={"type": "integer"},
    **{"from": {"type": ["string", "null"], "format": "date-time"}},
)
