"""Methods that a path does not have and that Ironic does not answer with 405.

Ironic's router passes the words of such a path as arguments to the handler of another path. That
handler answers 400, or 404 if it takes a word as the name of a node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus

from ironic_lite.domain import names

_SHOWN = 200
_LISTS = r"(chassis|nodes|ports|portgroups|volume/connectors|volume/targets)"
_BELOW = (
    r"/(chassis/\{ident\}/nodes|(nodes|portgroups)/\{ident\}/ports"
    r"|nodes/\{ident\}/(portgroups|volume/connectors|volume/targets))"
)
_VALIDATE = r"/nodes(/\{ident\})?/validate"
_REFUSED: tuple[tuple[str, HTTPStatus, re.Pattern[str]], ...] = tuple(
    (method, status, re.compile(pattern))
    for method, status, pattern in (
        (
            "POST",
            HTTPStatus.BAD_REQUEST,
            rf"/({_LISTS}|allocations|deploy_templates|inspection_rules)/\{{ident\}}"
            rf"|/{_LISTS}/detail|{_BELOW}(/detail)?|{_VALIDATE}"
            r"|/nodes/\{ident\}/(vifs/\{vif\}|vmedia/\{device_types\})",
        ),
        (
            "PATCH",
            HTTPStatus.BAD_REQUEST,
            rf"/({_LISTS}|deploy_templates|inspection_rules|runbooks)"
            rf"|/{_LISTS}/detail|{_BELOW}(/detail)?|{_VALIDATE}",
        ),
        (
            "DELETE",
            HTTPStatus.NOT_FOUND,
            r"(/nodes|/portgroups|/chassis/\{ident\}/nodes|/nodes/\{ident\}/portgroups)/detail|"
            + _VALIDATE,
        ),
        (
            "DELETE",
            HTTPStatus.BAD_REQUEST,
            rf"/({_LISTS}|deploy_templates|runbooks)|/{_LISTS}/detail|{_BELOW}(/detail)?"
            r"|/nodes/\{ident\}/vifs",
        ),
        (
            "PUT",
            HTTPStatus.BAD_REQUEST,
            r"/nodes/\{ident\}/management/indicators|/nodes/(management/boot_device|states/console)",
        ),
    )
)
_CHECKED = re.compile(r"/(node|portgroup)s/([^/]+)")


def status(method: str, path: str, words: Sequence[str]) -> HTTPStatus | None:
    """Return Ironic's status for a method that a path does not have; None for 405.

    :param path: in the form of the table of routes, such as ``/nodes/{ident}``.
    :param words: the words of the request in place of ``{...}``.
    """
    for known, code, pattern in _REFUSED:
        if known == method and pattern.fullmatch(path):
            return code if all(map(_is_ident, words)) else HTTPStatus.BAD_REQUEST
    return None


_BELOW_VERSION: tuple[tuple[HTTPStatus, re.Pattern[str]], ...] = (
    (
        HTTPStatus.METHOD_NOT_ALLOWED,
        re.compile(
            r"(POST|PATCH) /(allocations|inspection_rules)(/\{ident\})?|DELETE /allocations"
        ),
    ),
    (
        HTTPStatus.BAD_REQUEST,
        re.compile(r"(POST|PATCH) /nodes/\{ident\}/traits(/\{trait\})?"),
    ),
    (
        HTTPStatus.NOT_FOUND,
        re.compile(
            r"POST /portgroups/\{ident\}|(PATCH|DELETE) /portgroups"
            r"|(POST|PATCH|DELETE) /portgroups/detail"
        ),
    ),
)


def below(method: str, path: str) -> HTTPStatus | None:
    """Return Ironic's status for a method of a path newer than the version."""
    asked = f"{method} {path}"
    return next((code for code, pattern in _BELOW_VERSION if pattern.fullmatch(asked)), None)


_BY_HANDLER = re.compile(
    r"PUT /nodes/[^/]+/management(/.*)?|GET /nodes/[^/]+/states(/.*)?"
    r"|GET /nodes/[^/]+/management/(boot_device|indicators).*"
    r"|PUT /nodes/[^/]+/states/(?!target_raid_config).*|(PUT|DELETE) /nodes/[^/]+/maintenance"
    r"|\w+ /nodes/[^/]+/vendor_passthru(/.*)?"
)


def by_handler(method: str, path: str) -> bool:
    """Return whether Ironic checks the identifier in a handler instead of its router."""
    return _BY_HANDLER.fullmatch(f"{method} {path}") is not None


def wrong_identifier(path: str, words: Sequence[str]) -> str | None:
    """Return the fault in the identifier of a resource without an owner.

    :param path: in the form of the table of routes.
    """
    if path.startswith(("/chassis/{ident}", "/inspection_rules/{ident}")):
        return None if names.UUID.fullmatch(words[0]) else f"Expected UUID: {words[0]}"[:_SHOWN]
    named = path.startswith(("/deploy_templates/{ident}", "/heartbeat/{ident}"))
    if named and not _is_ident(words[0]):
        return f"Expected UUID or name: {words[0]}"[:_SHOWN]
    return None


def _is_ident(word: str) -> bool:
    return bool(names.NAME.fullmatch(word) or names.UUID.fullmatch(word))


def malformed(path: str) -> str | None:
    """Return the fault in an identifier, checked before a handler is searched."""
    found = _CHECKED.match(path)
    if found is None or _is_ident(found[2]):
        return None
    return f"Expected UUID or name for {found[1]}: {found[2]}"[:_SHOWN]
