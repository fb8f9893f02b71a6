"""Schemas of answers about the whole fleet, and about the caller."""

from __future__ import annotations

from ironic_lite.api.openapi import parts
from ironic_lite.api.resources import node_counts
from ironic_lite.core.json_types import Json

_TEXT: Json = {"type": "string"}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}


WHOAMI: Json = parts.object_with_all(
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
STEP_STATISTICS: Json = parts.object_with_all(
    steps={
        "type": "array",
        "items": parts.object_with_all(
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

NODE_COUNTS: Json = parts.object_with_all(
    by={"type": "array", "items": {"enum": list(node_counts.FIELDS)}, "minItems": 1, "maxItems": 3},
    of={"type": "integer"},
    counts={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                **{name: {"type": ["string", "boolean", "null"]} for name in node_counts.FIELDS},
                "count": {"type": "integer"},
            },
            "required": ["count"],
            "additionalProperties": False,
        },
    },
)
NODE_COUNTS_QUERY: Json = {"by": _TEXT, **dict.fromkeys(node_counts.FILTERS, _TEXT)}
