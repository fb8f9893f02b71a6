"""Documents of a BMC, read one call each: other nodes of that BMC get their turn in between."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import sushy.exceptions

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import connection

Json = dict[str, Any]

LOG = logging.getLogger(__name__)

_EXPAND = "?$expand=.($levels=1)"
"""DSP0266, query parameters: what it leads to, but nothing below Links."""

_PAGES = 100
"""Pages of one collection that are read before it counts as endless."""


def system(task: base.Task) -> Json:
    """Return the system as it is now.

    :raises errors.HardwareError, errors.InvalidRequest: see `connection.call`.
    """
    return connection.call(task, connection.Link.system_document)


def root(task: base.Task) -> Json:
    """Return the service root as it was at the login."""
    return connection.call(task, lambda link: link.root_document)


def read(task: base.Task, path: str) -> Json | None:
    """Return the document at a path, None if there is nothing.

    :raises errors.HardwareError: see `connection.call`.
    """

    def work(link: connection.Link) -> Json | None:
        try:
            return link.wire.document(path)
        except sushy.exceptions.ResourceNotFoundError:
            return None

    return connection.call(task, work)


def members(task: base.Task, path: str | None) -> Iterator[Json]:
    """Go through the documents of a collection; one that is not there has none.

    A BMC that can is asked for all in one answer.
    """
    for _ in range(_PAGES):
        page = _page(task, path) if path else None
        if page is None:
            return
        yield from listed(task, page, "Members")
        path = link(page, "Members@odata.nextLink")


def _page(task: base.Task, path: str) -> Json | None:
    """Return a collection, with its members in it if the BMC claims to know how and does."""
    features = value(root(task), "ProtocolFeaturesSupported", "ExpandQuery")
    if "?" not in path and value(features, "NoLinks") is True:
        try:
            whole = read(task, path + _EXPAND)
        except errors.BmcBadAnswer as why:
            LOG.info("Node %s: no collection in one answer: %s", task.node.uuid, why)
            whole = None
        if whole is not None:
            return whole
    return read(task, path)


def listed(task: base.Task, document: Json, *names: str) -> Iterator[Json]:
    """Go through the documents that a list of links leads to; some BMCs list them whole."""
    for entry in entries(document, *names):
        path = entry.get("@odata.id")
        if "Id" in entry:
            yield entry
        elif isinstance(path, str) and (found := read(task, path)) is not None:
            yield found


def change(task: base.Task, path: str, body: Json) -> None:
    """Send a PATCH, with the ETag that the document has now if it has one.

    :raises errors.HardwareError: see `connection.call`.
    """

    def work(link: connection.Link) -> None:
        etag = link.wire.get(path).headers.get("ETag")
        link.wire.patch(path, data=body, etag=etag)

    connection.call(task, work, read=False)


def lacking(task: base.Task, method: str, reason: str) -> errors.UnsupportedDriverExtension:
    """Return the error for what this machine's BMC does not offer."""
    return errors.UnsupportedDriverExtension(
        driver=task.node.driver, extension=f"{method} on this BMC: {reason}"
    )


# -- reading what was read: nothing of a document is certain -----------------------------------


def entries(document: Json, *names: str) -> list[Json]:
    """Return the objects of the list at this place, none if it is no list."""
    found = value(document, *names)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def link(document: Json, *names: str) -> str | None:
    """Return the path that a link at this place leads to."""
    found = value(document, *names)
    path = found.get("@odata.id") if isinstance(found, dict) else found
    return path if isinstance(path, str) and path else None


def text(document: Json, *names: str) -> str | None:
    """Return the string at this place, without spaces around it; None if it is empty or none."""
    found = value(document, *names)
    return (found.strip() or None) if isinstance(found, str) else None


def value(document: Any, *names: str) -> Any:
    """Return what is at this place, None if there is no such place."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document
