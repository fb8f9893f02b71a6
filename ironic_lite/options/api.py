"""Options of [api]: addresses, bounds on requests, who may use it."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.options import rows

API = (
    cfg.HostAddressOpt(
        "host",
        default="127.0.0.1",
        deprecated_opts=[cfg.DeprecatedOpt("host_ip", group="api")],
        help="Address the API listens on.",
    ),
    cfg.PortOpt("port", default=6385, help="TCP port the API listens on."),
    cfg.IntOpt("workers", default=1, min=1, max=256, help="Number of API worker processes."),
    cfg.IntOpt(
        "max_connections",
        default=1024,
        min=16,
        max=16384,
        help="Connections that a process of the API serves at once. More are not accepted before "
        "one is closed; the system keeps them waiting.",
    ),
    cfg.IntOpt(
        "max_reads",
        default=64,
        min=1,
        help="GETs that a process of the API works on at once. Who finds no place within a second, "
        "here and in the next three, gets 503.",
    ),
    cfg.IntOpt(
        "max_changes",
        default=128,
        min=1,
        help="Requests that change something and are in hand at once, their bodies received.",
    ),
    cfg.IntOpt(
        "max_agent_requests",
        default=128,
        min=1,
        help="Requests of ramdisk agents in hand at once: lookups, heartbeats, inspections.",
    ),
    cfg.IntOpt(
        "max_questions",
        default=32,
        min=1,
        help="GETs that wait for a conductor at once, beside max_reads for the others.",
    ),
    cfg.IntOpt(
        "max_password_checks",
        default=2,
        min=1,
        help="Passwords that a process of the API checks at once, with auth_strategy http_basic: "
        "each check keeps a processor busy for a tenth of a second and more. Those that were right "
        "within the last minute need none. Who finds no place within a second gets 503.",
    ),
    cfg.IntOpt(
        "max_body_memory_mib",
        default=256,
        min=80,
        help="MiB that the bodies of all requests in hand may take in a process of the API; the "
        "first 16 KiB of each are not counted. A request that would go beyond gets 503.",
    ),
    cfg.IntOpt(
        "body_timeout",
        default=60,
        min=1,
        help="Seconds in which the body of a request must have come, and one more for each 64 KiB "
        "of it. After that its client gets 408, and its connection is closed.",
    ),
    cfg.StrOpt(
        "ssl_cert_file", help="PEM file with the certificate chain; with ssl_key_file turns TLS on."
    ),
    cfg.StrOpt("ssl_key_file", help="PEM file with the private key of ssl_cert_file."),
    cfg.URIOpt(
        "public_endpoint",
        schemes=["http", "https"],
        help="Start of the links in answers, such as https://metal.example.org. Unset, it "
        "follows the request.",
    ),
    cfg.BoolOpt(
        "enable_proxy_headers_parsing",
        default=False,
        help="Believe the X-Forwarded-* headers of a reverse proxy when links are made. Only for "
        "an API that nothing but the proxy can reach.",
    ),
    cfg.IntOpt(
        "max_limit",
        default=1000,
        min=1,
        help="Rows of a list page: the default, and the most a client can ask for.",
    ),
    cfg.StrOpt(
        "default_version",
        default="latest",
        regex=r"^(latest|1\.([1-9]\d?|10\d|11[0-5]))$",
        help="Microversion of requests that name none: 'latest', or a number such as 1.1, "
        "which is what clients of Ironic without a version header expect.",
    ),
    cfg.StrOpt(
        "auth_strategy",
        default="noauth",
        choices=[
            ("noauth", "everybody who reaches the API may do everything"),
            ("http_basic", "users of http_basic_auth_user_file may do everything"),
            ("keystone", "tokens of OpenStack Identity, and what the policy lets their roles do"),
        ],
        deprecated_group="DEFAULT",
        help="Who may use the API. keystone needs the extra of that name, and is set up in "
        "[keystone_authtoken] and [oslo_policy].",
    ),
    cfg.BoolOpt(
        "project_admin_can_manage_own_nodes",
        default=True,
        help="With keystone, let administrators of a project enroll nodes, which their project "
        "then owns, and forget such nodes.",
    ),
    cfg.BoolOpt(
        "allow_unauthenticated_bind",
        default=False,
        help="Let noauth listen on an address other than loopback. Everybody who reaches it "
        "controls the machines.",
    ),
    cfg.BoolOpt(
        "enable_ramdisk_endpoints",
        default=True,
        help="Serve /v1/lookup, /v1/heartbeat and /v1/continue_inspection, which ramdisk agents "
        "call without authentication.",
    ),
    cfg.BoolOpt(
        "restrict_lookup",
        default=True,
        help="Answer /v1/lookup only for nodes in a state in which an agent may run.",
    ),
    cfg.IntOpt(
        "ramdisk_refusals_per_minute",
        default=300,
        min=0,
        help="How many of the requests of ramdisk agents one address may have refused "
        "within a minute; then all of its are, with 503, until the minute is over. 0: any number.",
    ),
    rows.seconds(
        "ramdisk_heartbeat_timeout",
        300,
        "Within which time an agent is told to send a heartbeat; it does so about twice as often.",
        least=1,
    ),
    *(
        cfg.ListOpt(
            f"disallow_{kind}_steps",
            default=["vendor.send_raw"],
            help=f"{kind.capitalize()} steps nobody may ask for, as interface.step.",
        )
        for kind in ("clean", "deploy", "service")
    ),
)
