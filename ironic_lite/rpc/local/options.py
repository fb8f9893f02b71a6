"""The options of the ``local://`` transport."""

from __future__ import annotations

from oslo_config import cfg

MIB = 1024 * 1024
GROUP = "oslo_messaging_local"

OPTIONS = (
    cfg.IntOpt(
        "frame_limit_mib",
        default=72,
        min=1,
        max=4095,
        help="Largest message between API and conductor, in MiB. A provision request may carry a "
        "config drive of 64 MiB; a request that is larger than this is refused with status 413.",
    ),
)


def frame_limit(conf: cfg.ConfigOpts) -> int:
    """Return the largest message in bytes."""
    conf.register_opts(OPTIONS, group=GROUP)
    return int(conf[GROUP].frame_limit_mib) * MIB


def list_opts() -> list[tuple[str, tuple[cfg.Opt, ...]]]:
    """Return (group, options) pairs for oslo-config-generator."""
    return [(GROUP, OPTIONS)]
