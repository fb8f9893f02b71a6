"""Options of [api]: addresses, limits on requests, login."""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_lite.core.options import rows

API = (
    cfg.HostAddressOpt(
        "host",
        default="127.0.0.1",
        deprecated_opts=[cfg.DeprecatedOpt("host_ip", group="api")],
        help="Address the API listens on.",
    ),
    cfg.PortOpt("port", default=6385, help="TCP port the API listens on."),
    cfg.IntOpt(
        "workers",
        default=1,
        min=0,
        max=256,
        deprecated_opts=[cfg.DeprecatedOpt("api_workers", group="api")],
        help="Number of API worker processes. 0: as many as processors, at most 4.",
    ),
    cfg.IntOpt(
        "max_connections",
        default=4096,
        min=16,
        max=65536,
        help="Connections that a process of the API serves at once. More are not accepted before "
        "one is closed; the system keeps them waiting.",
    ),
    cfg.IntOpt(
        "max_requests_per_address",
        default=512,
        min=0,
        help="Requests from one address, or from one IPv6 network of 64 bits, that a process of "
        "the API serves at once, including those whose bodies are still arriving; more get "
        "503. Behind a proxy all clients have one address, unless "
        "enable_proxy_headers_parsing is set. 0: no limit.",
    ),
    cfg.IntOpt(
        "head_timeout",
        default=10,
        min=1,
        max=3600,
        help="Seconds a client may take to send the head of a request, from its connection or "
        "the last response on; a connection that is idle for longer is closed.",
    ),
    cfg.IntOpt(
        "max_reads",
        default=64,
        min=1,
        help="GETs that a process of the API works on at once. A request that gets no slot "
        "within a second, here and for the next three options, gets 503.",
    ),
    cfg.IntOpt(
        "max_changes",
        default=128,
        min=1,
        help="Requests with changes that are processed at once, after their bodies were received.",
    ),
    cfg.IntOpt(
        "max_agent_requests",
        default=128,
        min=1,
        help="Requests of ramdisk agents processed at once: lookups, heartbeats, inspections.",
    ),
    cfg.IntOpt(
        "max_questions",
        default=32,
        min=1,
        help="GETs that wait for a conductor at once, beside max_reads for the others.",
    ),
    cfg.IntOpt(
        "max_watchers",
        default=2000,
        min=1,
        help="Requests that wait for a change, and streams of events, in a process of the API. "
        "One client address may have a quarter of them, one project half, all projects together "
        "three quarters. More get 503.",
    ),
    cfg.IntOpt(
        "max_wait",
        default=300,
        min=1,
        help="Longest wait in seconds that a request can ask for; a longer one is reduced.",
    ),
    cfg.IntOpt(
        "stream_seconds",
        default=1800,
        min=1,
        help="Seconds after which a stream of events ends, a tenth more or less by chance. The "
        "client connects again, and its rights are checked again.",
    ),
    cfg.IntOpt(
        "max_password_checks",
        default=2,
        min=1,
        help="Passwords that a process of the API checks at once, with auth_strategy http_basic: "
        "each check keeps a processor busy for at least a tenth of a second. A correct "
        "password is remembered for ten minutes after its last use and needs no check. A "
        "request that gets no slot within five seconds gets 503.",
    ),
    cfg.IntOpt(
        "max_body_memory_mib",
        default=256,
        min=80,
        help="MiB that the bodies of all current requests may take in a process of the API; the "
        "first 16 KiB of each are not counted. A request that would exceed this gets 503.",
    ),
    cfg.IntOpt(
        "max_answer_memory_mib",
        default=128,
        min=32,
        help="MiB that answers of more than 128 KiB may take in a process of the API until their "
        "clients have read them; clients of one address may take half. A read that would exceed "
        "this waits five seconds, and then gets 503.",
    ),
    cfg.IntOpt(
        "body_timeout",
        default=60,
        min=1,
        help="Seconds the body of a request may take to arrive, plus one for each 64 KiB of it. "
        "After that its client gets 408, and its connection is closed.",
    ),
    cfg.StrOpt(
        "ssl_cert_file", help="PEM file with the certificate chain; with ssl_key_file turns TLS on."
    ),
    cfg.StrOpt("ssl_key_file", help="PEM file with the private key of ssl_cert_file."),
    cfg.BoolOpt(
        "enable_ssl_api",
        help="Ironic's switch of TLS: true needs a certificate, from ssl_cert_file or cert_file. "
        "Unset, ssl_cert_file alone decides.",
    ),
    cfg.StrOpt(
        "cert_file",
        deprecated_opts=[cfg.DeprecatedOpt("cert_file", group="ssl")],
        help="Ironic's name of ssl_cert_file; used only with enable_ssl_api = true. In "
        "[ssl] as well.",
    ),
    cfg.StrOpt(
        "key_file",
        deprecated_opts=[cfg.DeprecatedOpt("key_file", group="ssl")],
        help="Ironic's name of ssl_key_file; used only with enable_ssl_api = true. In [ssl] "
        "as well.",
    ),
    cfg.StrOpt(
        "server_tls_minimum_version",
        default="1.2",
        choices=["1.2", "1.3"],
        help="The oldest TLS version accepted from clients.",
    ),
    cfg.URIOpt(
        "public_endpoint",
        schemes=["http", "https"],
        help="Start of the links in responses, such as https://metal.example.org. Unset, links "
        "use the address of the request.",
    ),
    cfg.BoolOpt(
        "enable_proxy_headers_parsing",
        default=False,
        deprecated_opts=[
            cfg.DeprecatedOpt("enable_proxy_headers_parsing", group="oslo_middleware")
        ],
        help="Trust the X-Forwarded-* headers of a reverse proxy: in links, in the check of "
        "Origin, and for the address of a client, which the limits for an address use. Only for "
        "an API that nothing but the proxy can reach.",
    ),
    cfg.IntOpt(
        "max_limit",
        default=1000,
        min=1,
        help="Rows of a list page: the default, and the most a client can request.",
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
            ("noauth", "every client that reaches the API may do everything"),
            ("http_basic", "users of http_basic_auth_user_file may do everything"),
            ("keystone", "tokens of OpenStack Identity, and what the policy lets their roles do"),
        ],
        deprecated_group="DEFAULT",
        help="How clients log in. keystone needs the extra of that name, and is set up in "
        "[keystone_authtoken] and [oslo_policy].",
    ),
    cfg.BoolOpt(
        "project_admin_can_manage_own_nodes",
        default=True,
        help="With keystone, let administrators of a project enroll nodes, which their project "
        "then owns, and delete such nodes.",
    ),
    cfg.BoolOpt(
        "allow_unauthenticated_bind",
        default=False,
        help="Let noauth listen on an address other than loopback. Every client that reaches it "
        "controls the machines.",
    ),
    cfg.ListOpt(
        "allowed_hosts",
        default=[],
        item_type=types.String(regex=r"^(\*|\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)$"),
        help="With noauth, names that the Host header of requests may have besides IP addresses, "
        "localhost, the name of this machine, and the hosts of host, public_endpoint and "
        "[service_catalog]endpoint_override: a name, .example.org for all names that end "
        "so, or * for any. With allow_unauthenticated_bind, names are checked only if this "
        "is set.",
    ),
    cfg.BoolOpt(
        "enable_window",
        default=True,
        help="Serve the web interface at /ui/. Its files hold no data of the service and need no "
        "login; what they show is read from the API with the login of the user.",
    ),
    cfg.IntOpt(
        "idempotency_hours",
        default=24,
        min=0,
        max=8760,
        help="Hours for which answers to changing requests with the header Idempotency-Key are "
        "kept, for repetitions. 0: ignore the header.",
    ),
    cfg.IntOpt(
        "idempotency_max_rows",
        default=100_000,
        min=1,
        help="Most requests of one caller with the header Idempotency-Key that are kept; one more "
        "is 429. The limit is not exact.",
    ),
    cfg.IntOpt(
        "idempotency_max_mib",
        default=256,
        min=16,
        help="Size in MiB of all answers that are kept for requests with the header "
        "Idempotency-Key, beyond which further ones are 429. One caller may take a quarter of it, "
        "all projects together three quarters. The limit is not exact.",
    ),
    cfg.IntOpt(
        "project_max_nodes",
        default=10_000,
        min=0,
        help="Most nodes that a project may own when its own administrator enrolls one more; "
        "beyond it the request is 409. 0: no limit. Callers with system scope have none.",
    ),
    cfg.IntOpt(
        "project_max_allocations",
        default=10_000,
        min=0,
        help="Most allocations of a project, as project_max_nodes.",
    ),
    cfg.IntOpt(
        "project_max_runbooks",
        default=1000,
        min=0,
        help="Most runbooks of a project, as project_max_nodes.",
    ),
    cfg.IntOpt(
        "project_max_node_parts",
        default=1000,
        min=0,
        help="Most ports, portgroups, volume connectors or volume targets, each, that a node may "
        "have when a project adds one more, as project_max_nodes.",
    ),
    cfg.IntOpt(
        "project_max_mib",
        default=256,
        min=0,
        help="Size in MiB of the JSON values and long texts of a project's nodes, allocations or "
        "runbooks, each, or of the parts of one node, beyond which a project may not add large "
        "ones, as project_max_nodes. Rows below 16 KiB are always accepted. Only fields that "
        "clients write count. Changes of a lessee count for the nodes that it leases.",
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
        help="How many refused requests of ramdisk agents one address may have for one node "
        "within a minute; further refusals are 429 until the minute is over. Agents with "
        "the right token are served all the same. 0: no limit.",
    ),
    rows.seconds(
        "ramdisk_heartbeat_timeout",
        300,
        "Seconds within which agents are told to send a heartbeat; they send about twice as many.",
        least=1,
    ),
    *(
        cfg.ListOpt(
            f"disallow_{kind}_steps",
            default=["vendor.send_raw"],
            help=f"{kind.capitalize()} steps that cannot be requested, as interface.step.",
        )
        for kind in ("clean", "deploy", "service")
    ),
)
