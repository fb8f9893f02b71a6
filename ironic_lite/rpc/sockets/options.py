"""The size limit of a message on a socket, in bytes."""

from __future__ import annotations

from ironic_lite.core import options
from ironic_lite.core.configuration import Configuration

MIB = 1024 * 1024
GROUP = "oslo_messaging_local"


def frame_limit(conf: Configuration) -> int:
    """Return the most bytes of a message; ``conf`` may be another program's."""
    conf.register_opts(options.GROUPS[GROUP], group=GROUP)
    return int(conf[GROUP].frame_limit_mib) * MIB
