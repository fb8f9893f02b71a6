"""Hold two answers against each other, and explain the differences that stay."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from ironic_lite.domain import versions
from tests.compare.requests import Case, with_good_parts
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
_BODY = r"/v1/\S+ "
_NO_OBJECT = _BODY + r'([\[{"5].*|null)?'
_UUID = r"[0-9a-f-]{36}"
_MAINTENANCE = r"/nodes(/\{ident\})?/maintenance(/\{(node_)?ident\}|\?node_ident=\{ident\})?"
BETTER: tuple[Reason, ...] = (
    Reason(".*", ".*", "500.*", "[234].*", "500: Ironic fails"),
    Reason(
        *("GET", "/nodes/{ident}/states/(power|provision|raid|boot_mode|secure_boot)"),
        *("400.*", "405.*", "500: Ironic fails when such a GET has no arguments"),
        sent=r"/v1/\S+\?\S+ ",
    ),
    Reason(
        *("GET", "/nodes/{ident}/traits/{trait}"),
        *("400.*", "405.*", "500: Ironic fails when such a GET has the argument fields"),
        sent=r"/v1/\S+\?unknown=1 ",
        older=True,
    ),
    # -- Ironic loses what was sent
    Reason(
        *("PUT", _MAINTENANCE, "(202|409).*", "400.*"),
        "Lost: a body that is no object",
        sent=_NO_OBJECT,
    ),
    Reason(
        *("PUT", "/nodes/{ident}/management/inject_nmi", "409.*", "400.*"),
        "Lost: a body that is no object",
        sent=_NO_OBJECT,
    ),
    Reason(
        *("PUT", "/nodes/{ident}/management/boot_device/supported", "400.*", "40[49].*"),
        "Lost: the body, where Ironic takes the word of the path for the boot device",
        sent=_BODY + '{"unknown": 1}',
    ),
    Reason(
        *("GET", "/nodes/detail", "200.*", "40[06].*"),
        "Lost: filters of child nodes in /nodes/detail",
        sent=r"/v1/\S+\?(include_children|parent_node)=\S* ",
    ),
    Reason(
        *("GET", "/allocations", "200.*", "400.*"),
        "Lost: the filter by a node that does not exist",
        sent=r"/v1/\S+\?node=\S* ",
    ),
    Reason(
        *("GET", "/portgroups/{ident}/ports", "200.*", "400.*"),
        "Lost: unknown names of fields",
        sent=r"/v1/\S+\?fields=nothing ",
    ),
    Reason(
        *("GET", "/runbooks", "200.*", "400.*", "Lost: unknown names of fields if no row is found"),
        sent=r"/v1/\S+\?fields=nothing ",
        roles=_NOT_ADMIN,
    ),
    Reason(
        *("GET", "/nodes/{ident}/management/indicators", "200.*", "400.*"),
        "Lost: unknown arguments of the list of indicators",
        sent=r"/v1/\S+\?\S+ ",
    ),
    Reason(
        *("GET", "/inspection_rules", "200.*", "200.*", "Lost: the filter by phase"),
        sent=r"/v1/\S+\?phase=\S* ",
    ),
    Reason(
        *("GET", "/runbooks", "400.*", "(200|403).*"),
        "Lost: the filter by project is read as a boolean",
        sent=r"/v1/\S+\?project=\S* ",
    ),
    Reason(
        *("GET", "/nodes/{ident}/(ports|portgroups|volume/[a-z]+)(/detail)?", "404.*", "200.*"),
        "Lost: the name of the node, the portgroup None is looked for",
        sent=r"/v1/nodes/n-\S* ",
    ),
    Reason(
        *("GET", "/portgroups/{ident}/ports(/detail)?", "404.*", "200.*"),
        "Lost: the name of the portgroup",
        sent="/v1/portgroups/group-1/ports(/detail)? ",
    ),
    Reason(
        *("GET", "(/nodes/{ident})?/portgroups/detail", "200.*", "200.*"),
        "Lost: the version, newer fields are shown",
        older=True,
    ),
    Reason(
        *("PATCH", "/ports/{ident}", "200.*", "400.*"),
        "Lost: the check of a port's name",
        sent=r'.*"/name", "value": "bad name".*',
    ),
    Reason(
        *("PATCH", "/inspection_rules/{ident}", "404.*", "400.*"),
        "Lost: the rule, its new UUID is looked for",
        sent=r'.*"path": "/uuid".*',
    ),
    Reason(
        *("PUT", "/nodes/{ident}/states/console", "(202|409).*", "400.*"),
        "Lost: null, which stops the console",
        sent=_BODY + '{"enabled": null}',
    ),
    Reason(
        *("POST", "/volume/(connectors|targets)", "201.*", "400.*"),
        "Lost: the lengths of Ironic's own columns, which SQLite does not check",
        sent=".*x{300}.*",
    ),
    # -- Ironic leaks
    Reason(
        *("GET", "/chassis/{ident}/nodes(/detail)?", "(200|404|406).*", "403.*"),
        "Leak: the nodes of a chassis that the caller may not see",
        roles="owner-.*",
    ),
    Reason(
        *("GET", "/nodes(/detail)?", "404.*", "200.*"),
        "Leak: whether a chassis exists that the caller may not see",
        sent=rf"/v1/\S+\?chassis_uuid={_UUID} ",
        roles="owner-.*",
    ),
    Reason(
        *("(GET|PUT|PATCH|DELETE)", "/runbooks/{ident}.*", "403.*", "404.*"),
        "Leak: whether a runbook of another project exists",
        sent=r"/v1/runbooks/(CUSTOM_RB|00000032).*",
        roles="norole|owner-.*",
    ),
    Reason(
        *("GET", "/nodes/{ident}/allocation", "404.*", "400.*"),
        "Leak: whether a node exists that the caller may not see",
        roles="norole",
    ),
    Reason(
        *("POST", "/heartbeat/{ident}", "404.*", "400.*"),
        "Leak: whether a node exists, without a login",
    ),
    # -- new API
    Reason("GET", "/events", "40[45].*", ".*", "New API: the list of events"),
    Reason(
        *("GET", "/nodes(/detail)?", "40[06].*", "(200|400).*", "New API: filters of our own"),
        sent=r"/v1/\S+\?(held|uuid|data_state)=\S* ",
    ),
    Reason(
        *("GET", "/nodes/{ident}/management/indicators/{component}", "400.*", "200.*"),
        "New API: the fake driver has indicators",
    ),
    Reason(
        *("PUT", "/nodes/{ident}/management/indicators/{component}", "400.*", "204.*"),
        "New API: the fake driver has indicators",
    ),
    Reason(
        *("PUT", "/nodes/{ident}/management/inject_nmi", "400.*", "204.*"),
        "New API: the fake driver has an NMI",
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
        *("GET", "/drivers/{name}/properties", "200.*'B1'.*", "200.*'fake_.*"),
        "New API: the fake driver has properties of its own",
    ),
    Reason(
        *("GET", "/nodes/{ident}/history", "400.*", "200.*"),
        "New API: the history has the argument fields",
        sent=r"/v1/\S+\?(\S+&)?fields=\S* ",
    ),
)
"""Differences that stay; docs/differences.rst has them in an operator's words."""


_ORDER = "Order: the request has several faults, and Ironic reports another one first"


def reason_of(one: Difference, ours: Answer, ironic: Callable[[Case], Answer | None]) -> str | None:
    """Return why a difference stays, None if nothing explains it.

    A request has several faults if Ironic refuses it as this service does once some of its parts
    are good. Then the order of the checks decides which fault is reported.

    :param ironic: returns the answer of Ironic to a further request, None if it is not known.
    """
    why = _known_reason(one)
    if why is not None or ours.status < HTTPStatus.BAD_REQUEST:
        return why
    for case in with_good_parts(one.case):
        theirs = ironic(case)
        if theirs is not None:
            other = compare(case, theirs, ours)
            if other is None or _known_reason(other) is not None:
                return _ORDER
    return None


def _known_reason(one: Difference) -> str | None:
    return next((reason.why for reason in BETTER if reason.explains(one)), None)
