"""Documents of a BMC, read one call each: other nodes of that BMC get their turn in between."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import sushy.exceptions

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import connection

Json = dict[str, Any]
Spare = Callable[[errors.HardwareError], None]
"""Is told why a document could not be read, and lets the others be read unless it raises."""

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


def members(task: base.Task, path: str | None, *, spare: Spare | None = None) -> Iterator[Json]:
    """Go through the documents of a collection; one that is not there has none.

    A BMC that can is asked for all in one answer.

    :param spare: as in `listed`; that the collection itself cannot be read is always an error.
    """
    for _ in range(_PAGES):
        page = _page(task, path) if path else None
        if page is None:
            return
        yield from listed(task, page, "Members", spare=spare)
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


def listed(
    task: base.Task, document: Json, *names: str, spare: Spare | None = None
) -> Iterator[Json]:
    """Go through the documents that a list of links leads to; some BMCs list them whole.

    :param spare: None if one that cannot be read is an error.
    :raises errors.HardwareError: see `connection.call`.
    """
    for entry in entries(document, *names):
        path = entry.get("@odata.id")
        if "Id" in entry:
            yield entry
        elif isinstance(path, str) and (found := _spared(task, path, spare)) is not None:
            yield found


def _spared(task: base.Task, path: str, spare: Spare | None) -> Json | None:
    try:
        return read(task, path)
    except errors.HardwareError as why:
        if spare is None:
            raise
        spare(why)
        return None


def change(task: base.Task, path: str, body: Json) -> None:
    """Send a PATCH, with the ETag that the document has now if it has one.

    :raises errors.HardwareError: see `connection.call`.
    """
    connection.call(task, lambda link: patch(link, path, body), read=False)


def patch(link: connection.Link, path: str, body: Json) -> None:
    """Do the same on a login."""
    etag = link.wire.get(path).headers.get("ETag")
    link.wire.patch(path, data=body, etag=etag)


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


def path(url: str) -> str:
    """Return the path of what may be a whole URL, such as the place of something new."""
    return "/" + url.partition("://")[2].partition("/")[2] if "://" in url else url


def text(document: Json, *names: str) -> str | None:
    """Return the string at this place, without spaces around it; None if it is empty or none."""
    found = value(document, *names)
    return (found.strip() or None) if isinstance(found, str) else None


def number(document: Json, *names: str) -> int | float | None:
    """Return the finite number at this place, also one that is written as text."""
    return as_number(value(document, *names))


def as_number(found: Any) -> int | float | None:
    """Return a value of a document as a finite number, None if it is none."""
    if isinstance(found, str):
        try:
            found = float(found)
        except ValueError:
            return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if math.isfinite(found) else None


def value(document: Any, *names: str) -> Any:
    """Return what is at this place, None if there is no such place."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document
