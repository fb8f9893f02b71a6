"""Options of [sensor_data], [healthcheck] and [metrics]: what others watch."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.options import rows

SENSOR_DATA = (
    cfg.BoolOpt(
        "send_sensor_data",
        default=False,
        help="Read the sensors of machines from time to time, and send what they say as "
        "notifications. [oslo_messaging_notifications]driver must be set, too.",
    ),
    rows.seconds("interval", 600, "Seconds between two rounds.", least=1),
    cfg.IntOpt(
        "workers", default=4, min=1, max=256, help="Machines whose sensors are read at once."
    ),
    rows.seconds(
        "wait_timeout",
        300,
        "Seconds a round may take; the next one goes on with the machines that are left. 0: no "
        "limit.",
    ),
    cfg.BoolOpt(
        "enable_for_undeployed_nodes",
        default=False,
        help="Read the sensors of machines without an instance, too.",
    ),
    cfg.ListOpt(
        "data_types",
        default=["ALL"],
        help="Which types of sensors are told of, such as Temperature, Fan, Power; ALL for all.",
    ),
)

HEALTHCHECK = (
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Answer GET /healthcheck with 200, before any login, as other OpenStack services do. "
        "/livez and /readyz answer always.",
    ),
    cfg.StrOpt(
        "disable_by_file_path",
        help="While this file is there, /healthcheck answers 503: a load balancer then sends its "
        "clients elsewhere.",
    ),
)

METRICS = (
    cfg.BoolOpt(
        "enabled",
        default=True,
        help="Answer GET /metrics with what Prometheus reads.",
    ),
    cfg.BoolOpt(
        "public",
        default=False,
        help="Answer /metrics to anybody who reaches the API, instead of those only whom "
        "[api]auth_strategy lets in.",
    ),
)
