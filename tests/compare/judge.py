"""Hold two answers against each other, and explain the differences that stay."""

from __future__ import annotations

import dataclasses
import json
import re
from http import HTTPStatus
from typing import Any

from ironic_lite.domain import versions
from tests.compare.requests import Case
from tests.compare.services import Answer

_ALWAYS_VERSIONED = (
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.BAD_REQUEST,
)
"""Ours carry the headers of versions there, too."""
_HEADERS = ("location", "x-openstack-ironic-api-version")


@dataclasses.dataclass(frozen=True)
class Difference:
    """A request that the two answer differently."""

    case: Case
    theirs: str
    ours: str


@dataclasses.dataclass(frozen=True)
class Reason:
    """A kind of difference that stays; the patterns must match the whole."""

    method: str
    route: str
    theirs: str
    ours: str
    why: str
    sent: str = ".*"
    roles: str = ".*"
    older: bool = False

    # ``sent`` is path and body; ``older``: only below the newest version.

    def explains(self, one: Difference) -> bool:
        """Return whether this is such a difference."""
        body = (one.case.body or b"").decode(errors="replace")
        if self.older and one.case.version == versions.LAST:
            return False
        pairs = (
            (self.method, one.case.method),
            (self.route, one.case.route),
            (self.theirs, one.theirs),
            (self.ours, one.ours),
            (self.sent, f"{one.case.path} {body}"),
            (self.roles, str(one.case.role)),
        )
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in pairs)


def compare(case: Case, theirs: Answer, ours: Answer) -> Difference | None:
    """Return how the answers differ, None if they are the same to a client."""
    if theirs.status != ours.status:
        return Difference(case, str(theirs.status), str(ours.status))
    shapes = [_shape(answer) for answer in (theirs, ours)]
    if shapes[0] != shapes[1]:
        return Difference(case, *(f"{theirs.status} {shape}" for shape in shapes))
    return None


def _shape(answer: Answer) -> str:
    """Return what a client relies on besides the status: headers, keys, the class of an error."""
    shown = [name for name in _HEADERS if name in answer.headers]
    if answer.status in _ALWAYS_VERSIONED:
        shown = []
    body = answer.json
    if answer.status >= HTTPStatus.BAD_REQUEST:
        return f"{shown} {_error(body)}"
    if isinstance(body, dict):
        keys = sorted(body)
        lists = (body[key] for key in keys if isinstance(body[key], list) and body[key])
        inner = next(lists, [None])[0]
        return f"{shown} {keys} {sorted(inner) if isinstance(inner, dict) else ''}"
    return f"{shown} {type(body).__name__}"


def _error(body: Any) -> str:
    """Return the form of an error's body."""
    if not isinstance(body, dict):
        return type(body).__name__
    inner = body.get("error_message")
    if not isinstance(inner, str):
        return str(sorted(body))
    try:
        told = json.loads(inner)
    except ValueError:
        return "error_message of text"
    return f"error_message of {sorted(told)} {told.get('faultcode', '')}"


_NOT_ADMIN = r"(?!admin).*"
_UNREADABLE = r'.* ([\[{"5].*|null)?'
BETTER: tuple[Reason, ...] = (
    Reason(".*", ".*", "5.*", "[234].*", "Ironic fails with 500"),
    Reason(
        *("GET", "/nodes/{ident}/states/(power|provision|raid|boot_mode|secure_boot)"),
        *("400.*", "405.*", "Ironic fails with 500 when such a GET has no arguments"),
        sent=r".*\?.*",
    ),
    Reason(
        *("PUT", "/nodes.*maintenance.*", "(202|403|404|409).*", "400.*"),
        "Ironic loses a body that is no object",
        sent=_UNREADABLE,
    ),
    Reason(
        *("PUT", "/nodes/{ident}/management/inject_nmi", "409.*", "400.*"),
        "Ironic loses a body that is no object",
        sent=_UNREADABLE,
    ),
    Reason(
        *("GET", "/nodes/detail", "200.*", "40[06].*"),
        "Ironic loses the filters of child nodes in /nodes/detail",
        sent=r".*\?(include_children|parent_node)=.*",
    ),
    Reason(
        *("GET", "/allocations", "200.*", "400.*"),
        "Ironic loses the filter by a node that does not exist, and lists all allocations",
        sent=r".*\?node=.*",
    ),
    Reason(
        *("GET", "/portgroups/{ident}/ports", "200.*", "400.*"),
        "Ironic loses an argument that it cannot read",
        sent=r".*\?.*",
    ),
    Reason(
        *("GET", "/nodes/{ident}/(ports|portgroups|volume/.*)(/detail)?", "404.*", "200.*"),
        "Ironic loses the name of the node and looks for the portgroup None",
        sent=r"/v1/nodes/n-.*",
    ),
    Reason(
        *("GET", "/portgroups/{ident}/ports(/detail)?", "404.*", "200.*"),
        "Ironic does not find the portgroup by its name",
        sent=r"/v1/portgroups/group-1/.*",
    ),
    Reason(
        *("GET", "/chassis/{ident}/nodes(/detail)?", "[24].*", "403.*"),
        "Ironic leaks the nodes of a chassis that the caller may not see",
        roles=_NOT_ADMIN,
    ),
    Reason(
        *("(GET|PUT|PATCH|DELETE)", "/runbooks/{ident}.*", "403.*", "404.*"),
        "Ironic leaks that a runbook of another project exists",
        roles=_NOT_ADMIN,
    ),
    Reason(
        *("POST", "/heartbeat.*", "40[14].*", "400.*"),
        "Ironic leaks without a login that a node exists",
    ),
    Reason(
        *("(GET|PUT|PATCH|DELETE)", "/heartbeat.*", "401.*", "405.*"),
        "Ironic asks for a login where there is nothing to log in to",
        roles="None",
    ),
    Reason(
        *("GET|PUT", "/nodes/{ident}/management/(indicators|inject_nmi).*"),
        *("(200|400).*", "(20[04]|400).*", "New API: the fake driver has indicators and an NMI"),
    ),
    Reason(
        *("GET", "/nodes/{ident}/vmedia", "400.*", "200.*"),
        "New API: the fake driver has virtual media",
    ),
    Reason(
        *("GET", "/(nodes|drivers)/{[a-z]+}/vendor_passthru/methods", "200.*", "200.*"),
        "New API: the fake driver has vendor methods of its own",
    ),
    Reason(
        *("GET", "/inspection_rules", "200.*", "200.*"),
        "New API: the list of inspection rules can be filtered by phase",
        sent=".*phase=.*",
    ),
    Reason(
        *("GET", "/nodes/{ident}/history", "400.*", "200.*"),
        "New API: the history has the argument fields",
        sent=".*fields=.*",
    ),
)
"""Differences that stay; docs/differences.rst has them in an operator's words."""


def reason_of(one: Difference) -> str | None:
    """Return why a difference stays, None if nothing explains it."""
    return next((reason.why for reason in BETTER if reason.explains(one)), None)
