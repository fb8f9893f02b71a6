"""Repeated option forms: seconds, sweeps, limits of waits, URLs by CPU."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from ironic_lite.core.options import values


def seconds(name: str, default: int, help: str, *, least: int = 0, **more: Any) -> cfg.Opt:
    return cfg.IntOpt(name, default=default, min=least, help=help, **more)


def sweep(name: str, default: int, help: str) -> cfg.Opt:
    return seconds(name, default, f"{help} 0 turns it off.")


def by_arch(name: str, what: str) -> tuple[cfg.Opt, cfg.Opt]:
    """Return one option for all machines, and one by ``cpu_arch`` of node properties."""
    return (
        cfg.StrOpt(name, help=f"URL of {what}, for nodes whose driver_info names none."),
        cfg.DictOpt(
            f"{name}_by_arch",
            default={},
            sample_default={"x86_64": f"file:///srv/boot/x86_64.{name.rpartition('_')[2]}"},
            help=f"The same by properties/cpu_arch, as arch:URL; it comes before {name}.",
        ),
    )


def allowed_networks(what: str, **more: Any) -> cfg.Opt:
    """Return the option with the networks in which something may be contacted."""
    return cfg.ListOpt(
        "allowed_networks",
        default=[],
        item_type=values.IPNetwork(),
        sample_default=["192.0.2.0/24", "2001:db8::/64"],
        help=f"Networks in which {what} may be contacted; these addresses come from others than "
        "the operator. Unset, all but loopback, link-local and multicast addresses, which "
        "must be named here if needed.",
        **more,
    )


def limit(name: str, what: str, **more: Any) -> cfg.Opt:
    return seconds(
        name,
        1800,
        f"A node that waits longer than this many seconds for {what} fails. 0 waits for ever.",
        **more,
    )
