"""Options of [fake]: simulated machines."""

from __future__ import annotations

from oslo_config import cfg

FAKE = (
    cfg.FloatOpt(
        "step_seconds",
        default=0,
        min=0,
        help="Seconds a step takes on fake-hardware. A node's driver_info/fake_step_seconds "
        "decides for that node.",
    ),
)
