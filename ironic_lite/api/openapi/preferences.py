"""Answers and headers of requests that heed the header Prefer, and of requests that wait.

The rows of `ANSWERS` have the names of the functions of `resources.preferred`.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from ironic_lite.core.json_types import Json

_ENDED = HTTPStatus.OK
_GOES_ON = HTTPStatus.ACCEPTED
_RUN: Json = {"$ref": "#/components/schemas/Run"}
_TEXT: Json = {"type": "string"}
_END: Json = {
    "type": "object",
    "description": "The event that has ended the work.",
    "properties": {"node": _TEXT, "kind": {"enum": ["power", "management"]}, "event": _TEXT},
    "required": ["node", "kind", "event"],
    "additionalProperties": False,
}
_MAINTENANCE: Json = {
    "type": "object",
    "properties": {"node": _TEXT, "maintenance": {"type": "boolean"}},
    "required": ["node", "maintenance"],
    "additionalProperties": False,
}

ANSWERS: Mapping[str, Mapping[int, Json | None]] = {
    "verb": {_ENDED: _RUN, _GOES_ON: _RUN},
    "operation": {_ENDED: _END, _GOES_ON: None},
    "vendor": {},
    "change": {_ENDED: _MAINTENANCE},
    "at_once": {},
    "steps": {},
}
"""Function -> the answers, with the schemas of their bodies, that only a preference brings."""

FAILING = frozenset({"verb", "operation", "vendor"})
"""Functions that answer 424 if the work fails."""

ABOUT: Mapping[int, str] = {
    _ENDED: "With Prefer: wait=N, the work has ended well.",
    _GOES_ON: "Accepted. With Prefer: wait=N, the work goes on after N seconds; only then a "
    "request for a verb is answered with its run (x-preferred-content).",
}

_APPLIED = "PreferenceApplied"
_MONITOR = "Monitor"
_AGAIN = "RetryAfter"

HEADERS: Mapping[str, Json] = {
    _APPLIED: {
        "description": "The preferences that were applied (RFC 7240, 3).",
        "schema": _TEXT,
        "example": "wait=50",
    },
    _MONITOR: {
        "description": 'The run of the request, with rel="monitor".',
        "schema": _TEXT,
        "example": "</v1/nodes/1be26c0b-03f2-4d2e-ae87-c02d7f33c123/runs/"
        '2f4c7a0e-6b1d-4a53-9a35-5d6f0f0f7d55>; rel="monitor"',
    },
    _AGAIN: {
        "description": "Seconds after which a repetition may succeed. python-ironicclient does not "
        "get this header.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
        "example": "1",
    },
}
"""Headers of answers, for ``components``."""

_NAMES = {_APPLIED: "Preference-Applied", _MONITOR: "Link", _AGAIN: "Retry-After"}
_OF_REFUSALS: Mapping[int, tuple[str, ...]] = {
    HTTPStatus.CONFLICT: (_AGAIN, _APPLIED),
    HTTPStatus.FAILED_DEPENDENCY: (_MONITOR, _APPLIED),
    HTTPStatus.SERVICE_UNAVAILABLE: (_AGAIN, _APPLIED),
    HTTPStatus.GATEWAY_TIMEOUT: (_AGAIN,),
}


def of_success(preferred: str) -> Json:
    """Return the headers of a success.

    :param preferred: the function of `resources.preferred`, "" for none.
    """
    if not preferred:
        return {}
    return _references((_APPLIED, _MONITOR) if preferred == "verb" else (_APPLIED,))


def of_refusal(status: int) -> Json:
    """Return the headers of a refusal."""
    return _references(_OF_REFUSALS.get(status, ()))


def _references(keys: tuple[str, ...]) -> Json:
    return {_NAMES[key]: {"$ref": f"#/components/headers/{key}"} for key in keys}
