"""Options of [sensor_data], [healthcheck], [metrics] and [webhooks]."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.core.options import rows, values

SENSOR_DATA = (
    cfg.BoolOpt(
        "send_sensor_data",
        default=False,
        deprecated_group="conductor",
        help="Read the sensors of machines periodically, and send the values as notifications. "
        "[oslo_messaging_notifications]driver must be set, too.",
    ),
    rows.seconds(
        "interval",
        600,
        "Seconds between two rounds.",
        least=1,
        deprecated_opts=[cfg.DeprecatedOpt("send_sensor_data_interval", group="conductor")],
    ),
    cfg.IntOpt(
        "workers", default=4, min=1, max=256, help="Machines whose sensors are read at once."
    ),
    rows.seconds(
        "wait_timeout",
        300,
        "Seconds a round may take; the next one continues with the remaining machines. 0: no "
        "limit.",
    ),
    cfg.BoolOpt(
        "enable_for_undeployed_nodes",
        default=False,
        deprecated_opts=[
            cfg.DeprecatedOpt("send_sensor_data_for_undeployed_nodes", group="conductor")
        ],
        help="Read the sensors of machines without an instance, too.",
    ),
    cfg.ListOpt(
        "data_types",
        default=["ALL"],
        help="Types of sensors to report, such as Temperature, Fan, Power; ALL for all.",
    ),
)

HEALTHCHECK = (
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Answer GET /healthcheck with 200, without a login, as other OpenStack services do. "
        "/livez and /readyz always answer.",
    ),
    cfg.StrOpt(
        "disable_by_file_path",
        help="While this file exists, /healthcheck answers 503, so that a load balancer uses "
        "other servers.",
    ),
)

METRICS = (
    cfg.BoolOpt(
        "enabled",
        default=True,
        help="Answer GET /metrics in the format of Prometheus.",
    ),
    cfg.BoolOpt(
        "public",
        default=False,
        help="Answer /metrics to every client that reaches the API, without the login of "
        "[api]auth_strategy.",
    ),
)

WEBHOOKS = (
    cfg.BoolOpt("enabled", default=True, help="Deliver events to webhooks."),
    cfg.ListOpt(
        "blocked_networks",
        item_type=values.IPNetwork(),
        default=[],
        help="Networks to which no webhook is delivered, besides loopback, link-local, multicast "
        "and metadata addresses. Networks of BMCs belong here.",
    ),
    rows.allowed_networks("receivers of webhooks"),
    cfg.BoolOpt(
        "allow_http",
        default=False,
        help="Accept webhooks whose URL is http. Their events can be read on the way.",
    ),
)
