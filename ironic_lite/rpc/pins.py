"""What may be asked of conductors of an older release, while a service is upgraded.

Conductors take all that older APIs ask. The other way round, an API of a new release asks only what
the release knows that [DEFAULT]pin_release_version names; for the rest its callers get 503.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from ironic_lite import config, errors
from ironic_lite.rpc import interface

LOG = logging.getLogger(__name__)

RELEASES: Mapping[str, str] = {
    # release: the newest version of the contract that its conductors know
    "0.1": "1.7",
}
_OPTION = "pin_release_version"
_OPTIONAL = frozenset(
    {
        "continue_node_clean.step_id",
        "continue_node_deploy.step_id",
        "continue_node_service.step_id",
    }
)
"""Arguments that are left out for a conductor which does not know them."""


def release(version: str) -> str:
    """Return the release that a version of the package belongs to: "0.1" of "0.1.3"."""
    return ".".join(version.split(".")[:2])


def pinned(conf: cfg.ConfigOpts) -> str | None:
    """Return the release that conductors may still be of, None if all are of this one.

    A name of OpenStack's, out of a file that was written for Ironic, pins nothing: none of our
    releases is like one of those.

    :raises config.ConfigError: it looks like a release of ours, and is none.
    """
    name: str | None = conf[_OPTION]
    if not name or name in RELEASES:
        return name or None
    if name[0].isdigit():
        known = ", ".join(RELEASES)
        raise config.ConfigError(
            reason=f"[DEFAULT]{_OPTION}: {name} is no release that this one can stand beside; "
            f"these are {known}"
        )
    LOG.warning("[DEFAULT]%s = %s is no release of this service: nothing is pinned", _OPTION, name)
    return None


def fitted(method: str, args: Mapping[str, Any], pin: str | None) -> dict[str, Any]:
    """Return the arguments of a call as conductors of a release take them.

    :param pin: the release, None for this one.
    :raises errors.Pinned: they do not know the method, or an argument that cannot be left out.
    """
    if pin is None:
        return dict(args)
    cap = _number(RELEASES[pin])
    _refuse_newer(method, cap, pin)
    kept = {}
    for name, value in args.items():
        full = f"{method}.{name}"
        if full in _OPTIONAL and _number(interface.SINCE[full]) > cap:
            continue
        _refuse_newer(full, cap, pin)
        kept[name] = value
    return kept


def _refuse_newer(name: str, cap: tuple[int, ...], pin: str) -> None:
    if _number(interface.SINCE.get(name, "1.0")) > cap:
        raise errors.Pinned(release=pin, what=name)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
