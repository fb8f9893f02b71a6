"""The size limit of a message of ``local://``, in bytes."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.core import options

MIB = 1024 * 1024
GROUP = "oslo_messaging_local"


def frame_limit(conf: cfg.ConfigOpts) -> int:
    """Return the most bytes of a message; ``conf`` may be another program's."""
    conf.register_opts(options.GROUPS[GROUP], group=GROUP)
    return int(conf[GROUP].frame_limit_mib) * MIB
