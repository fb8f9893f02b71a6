"""Calls allowed to conductors of an older release, during an upgrade.

Conductors accept all calls of older APIs. An API of a new release sends only calls that the release
in [DEFAULT]pin_release_version supports; clients that need others get 503.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.rpc import interface

LOG = logging.getLogger(__name__)

RELEASES: Mapping[str, str] = {
    # release: the newest contract version of its conductors
    "0.1": "1.9",
}
_OPTION = "pin_release_version"
_OPTIONAL = frozenset(
    {
        "continue_node_clean.step_id",
        "continue_node_deploy.step_id",
        "continue_node_service.step_id",
    }
)
"""Arguments to leave out for a conductor that does not support them."""


def release(version: str) -> str:
    """Return the release that a version of the package belongs to: "0.1" of "0.1.3"."""
    return ".".join(version.split(".")[:2])


def pinned(conf: Configuration) -> str | None:
    """Return the oldest release of conductors, None if all are of this release.

    A release name of OpenStack, from a file written for Ironic, pins nothing, because it does not
    look like a release of this service.

    :raises config.ConfigError: it looks like a release of this service, but is not supported.
    """
    name: str | None = conf[_OPTION]
    if not name or name in RELEASES:
        return name or None
    if name[0].isdigit():
        known = ", ".join(RELEASES)
        raise config.ConfigError(
            reason=f"[DEFAULT]{_OPTION}: {name} is not a release that this one supports beside "
            f"itself; supported: {known}"
        )
    LOG.warning(
        "[DEFAULT]%s = %s is not a release of this service; nothing is pinned", _OPTION, name
    )
    return None


def fitted(method: str, args: JsonView, pin: str | None) -> Json:
    """Return the arguments of a call that conductors of a release accept.

    :param pin: the release, None for this one.
    :raises errors.Pinned: they lack the method, or an argument that cannot be left out.
    """
    if pin is None:
        return dict(args)
    cap = _version_number(RELEASES[pin])
    _refuse_newer(method, cap, pin)
    kept = {}
    for name, value in args.items():
        full = f"{method}.{name}"
        if full in _OPTIONAL and _version_number(interface.SINCE[full]) > cap:
            continue
        _refuse_newer(full, cap, pin)
        kept[name] = value
    return kept


def _refuse_newer(name: str, cap: tuple[int, ...], pin: str) -> None:
    if _version_number(interface.SINCE.get(name, "1.0")) > cap:
        raise errors.Pinned(release=pin, what=name)


def _version_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
