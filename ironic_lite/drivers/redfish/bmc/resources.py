"""Reading of Redfish resources, one call each, so other nodes of the BMC can interleave."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import connection, quirks, transport
from ironic_lite.drivers.redfish.bmc import library as sushy

Spare = Callable[[errors.HardwareError], None]
"""Receives the error of an unreadable document; reading continues unless it raises."""

LOG = logging.getLogger(__name__)

_EXPAND = "?$expand=.($levels=1)"
"""DSP0266, query parameters: expand subordinate resources, but not those below Links."""

_PAGES = 100
"""Page limit of one collection; a longer collection counts as endless."""

_LONGEST_TEXT = 4096


def system(task: base.Task) -> Json:
    """Return the current system resource.

    :raises errors.HardwareError, errors.InvalidRequest: see `connection.call`.
    """
    return connection.call(task, connection.Link.system_document)


def known_system(task: base.Task) -> Json:
    """Return the system as read since the last change and pause of this task, else read it."""
    return connection.call(task, connection.Link.known_system)


def root(task: base.Task) -> Json:
    """Return the service root as read at the login."""
    return connection.call(task, lambda link: link.root_document)


def read(task: base.Task, path: str) -> Json | None:
    """Return the document at a path, None if it does not exist.

    :raises errors.HardwareError: see `connection.call`.
    """

    def work(link: connection.Link) -> Json | None:
        try:
            return link.wire.document(path)
        except sushy.exceptions.ResourceNotFoundError:
            return None

    return connection.call(task, work)


def members(task: base.Task, path: str | None, *, spare: Spare | None = None) -> Iterator[Json]:
    """Yield the documents of a collection; a missing collection yields nothing.

    If the BMC supports it, all members are requested in one answer.

    :param spare: as in `listed`; an unreadable collection is always an error.
    """
    for _ in range(_PAGES):
        page = _read_page(task, path) if path else None
        if page is None:
            return
        yield from listed(task, page, "Members", spare=spare)
        path = link(page, "Members@odata.nextLink")


def _read_page(task: base.Task, path: str) -> Json | None:
    """Return a page of a collection, with its members included if the BMC supports that."""
    features = value(root(task), "ProtocolFeaturesSupported", "ExpandQuery")
    if "?" not in path and value(features, "NoLinks") is True and connection.call(task, _expands):
        try:
            whole = read(task, path + _EXPAND)
            if whole is not None and _has_whole_members(whole):
                return whole
        except (errors.BmcBadAnswer, errors.BmcUnreachable) as why:
            LOG.info("Node %s: cannot read a collection in one answer: %s", task.node.uuid, why)
            page = read(task, path)
            # The BMC answers, but not this: the next collection would take as long.
            connection.call(task, _forget_expansion)
            return page
    return read(task, path)


def _has_whole_members(page: Json) -> bool:
    """Return whether each member is a document or at least a link to one."""
    found = page.get("Members")
    return isinstance(found, list) and all(
        "Id" in one or link(one) if isinstance(one, dict) else False for one in found
    )


def _expands(link: connection.Link) -> bool:
    return link.expands


def _forget_expansion(link: connection.Link) -> None:
    link.expands = False


def listed(
    task: base.Task, document: Json, *names: str, spare: Spare | None = None
) -> Iterator[Json]:
    """Yield the documents that a list of links leads to; some BMCs include the documents.

    :param spare: None if an unreadable document is an error.
    :raises errors.HardwareError: see `connection.call`.
    """
    for entry in entries(document, *names):
        path = entry.get("@odata.id")
        if "Id" in entry:
            yield entry
        elif isinstance(path, str) and (found := _read_or_note(task, path, spare)) is not None:
            yield found


def managers(task: base.Task, system: Json) -> Iterator[Json]:
    """Yield the managers of a system, whichever of two links leads to them."""
    for name in ("ManagedBy", "Managers"):
        if entries(system, "Links", name):
            yield from listed(task, system, "Links", name)
            return


def note_unreadable(task: base.Task, what: str) -> Spare:
    """Return a function that logs an unreadable document, so that reading goes on without it.

    A document that is silent or not ready counts only if the BMC itself answers.
    """

    def note(why: errors.HardwareError) -> None:
        if not isinstance(why, errors.BmcBadAnswer):
            system(task)
        LOG.info("Node %s: cannot read one of %s: %s", task.node.uuid, what, why)

    return note


def _read_or_note(task: base.Task, path: str, spare: Spare | None) -> Json | None:
    try:
        return read(task, path)
    except errors.HardwareError as why:
        if spare is None:
            raise
        spare(why)
        return None


def change(task: base.Task, path: str, body: Json) -> None:
    """Send a PATCH with the current ETag of the document, if it has one.

    :raises errors.HardwareError: see `connection.call`.
    """
    connection.call(task, lambda link: patch(link, path, body), read=False)


def patch(link: connection.Link, path: str, body: Json) -> transport.Response:
    """Send a PATCH as `change` does, on an open login, and return the answer."""
    return link.wire.patch(path, data=body, etag=link.wire.get(path).etag)


def act(link: connection.Link, target: str) -> transport.Response:
    """Run an action without arguments, and return the answer.

    Most BMCs need an empty object.
    """
    try:
        return link.wire.post(target, data={})
    except sushy.exceptions.HTTPError as error:
        if error.status_code not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNSUPPORTED_MEDIA_TYPE}:
            raise
        quirks.BODILESS_ACTION.log(f"BMC {link.node.address}")
        return link.wire.post(target)


def lacking(task: base.Task, method: str, reason: str) -> errors.UnsupportedDriverExtension:
    """Return the error for a feature that this machine's BMC does not offer."""
    return errors.UnsupportedDriverExtension(
        driver=task.node.driver, extension=f"{method} on this BMC: {reason}"
    )


# -- safe access to documents, in which any property may be missing or have a wrong type --------


def entries(document: Json, *names: str) -> list[Json]:
    """Return the objects of the list at this place, empty if there is no list."""
    found = value(document, *names)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def link(document: Json, *names: str) -> str | None:
    """Return the target path of the link at this place."""
    found = value(document, *names)
    path = found.get("@odata.id") if isinstance(found, dict) else found
    return path if isinstance(path, str) and path else None


def path(url: str) -> str:
    """Return the path of a path or of a whole URL, such as the Location of a new resource."""
    return "/" + url.partition("://")[2].partition("/")[2] if "://" in url else url


def text(document: Json, *names: str) -> str | None:
    """Return the stripped string at this place; None if it is empty or not a string.

    It is cut after 4096 characters, because facts of hundreds of documents are kept together.
    """
    found = value(document, *names)
    return (found.strip()[:_LONGEST_TEXT] or None) if isinstance(found, str) else None


def number(document: Json, *names: str) -> int | float | None:
    """Return the finite number at this place; a number written as text counts."""
    return as_number(value(document, *names))


def as_number(found: object) -> int | float | None:
    """Return a value of a document as a finite number, None if it is not a number."""
    if isinstance(found, str):
        try:
            found = float(found)
        except ValueError:
            return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if math.isfinite(found) else None


def value(document: object, *names: str) -> Any:
    """Return the value at this place, None if the place does not exist."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document
