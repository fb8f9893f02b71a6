"""Options of [api]: addresses, limits on requests, login."""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_lite.core.options.declare import (
    Group,
    boot_modes,
    file_mode,
    items,
    number,
    option,
    seconds,
    switch,
    text,
    url,
)


def _disallowed(kind: str) -> list[str]:
    return items(["vendor.send_raw"], f"{kind} steps that cannot be requested, as interface.step.")


class ApiOptions(Group):
    """Options of [api]."""

    host: str = option(
        cfg.HostAddressOpt, "127.0.0.1", "Address the API listens on.", old=[("api", "host_ip")]
    )
    port: int = option(cfg.PortOpt, 6385, "TCP port the API listens on.")
    unix_socket: str | None = text(
        None,
        "Absolute path, of at most 98 bytes, of a unix socket to listen on instead of host and "
        "port, in a folder that exists; one process serves it. TLS and the limits for client "
        "addresses are then matters of the proxy before it.",
        sample_default="/run/ironic-lite/api.sock",
    )
    unix_socket_mode: int = file_mode("0660", "Mode of unix_socket, in octal digits.")
    workers: int = number(
        1,
        "Number of API worker processes. 0: as many as processors, at most 4.",
        min=0,
        max=256,
        old=[("api", "api_workers")],
    )
    max_connections: int = number(
        4096,
        "Connections that a process of the API serves at once. More are not accepted before one is "
        "closed; the system keeps them waiting.",
        min=16,
        max=65536,
    )
    max_requests_per_address: int = number(
        512,
        "Requests from one address, or from one IPv6 network of 64 bits, that a process of the API "
        "serves at once, including those whose bodies are still arriving; more get 503. Behind a "
        "proxy all clients have one address, unless enable_proxy_headers_parsing is set. 0: no "
        "limit.",
        min=0,
    )
    head_timeout: int = number(
        10,
        "Seconds a client may take to send the head of a request, from its connection or the last "
        "response on; a connection that is idle for longer is closed.",
        min=1,
        max=3600,
    )
    max_reads: int = number(
        64,
        "GETs that a process of the API works on at once. A request that gets no slot within a "
        "second, here and for the next three options, gets 503.",
        min=1,
    )
    max_changes: int = number(
        128,
        "Requests with changes that are processed at once, after their bodies were received.",
        min=1,
    )
    max_agent_requests: int = number(
        128,
        "Requests of ramdisk agents processed at once: lookups, heartbeats, inspections.",
        min=1,
    )
    max_questions: int = number(
        32, "GETs that wait for a conductor at once, beside max_reads for the others.", min=1
    )
    max_watchers: int = number(
        2000,
        "Requests that wait for a change, and streams of events, in a process of the API. One "
        "client address may have a quarter of them, one project half, all projects together three "
        "quarters. More get 503.",
        min=1,
    )
    max_wait: int = number(
        300, "Longest wait in seconds that a request can ask for; a longer one is reduced.", min=1
    )
    stream_seconds: int = number(
        1800,
        "Seconds after which a stream of events ends, a tenth more or less by chance. The client "
        "connects again, and its rights are checked again.",
        min=1,
    )
    max_password_checks: int = number(
        2,
        "Passwords that a process of the API checks at once, with auth_strategy http_basic: each "
        "check keeps a processor busy for at least a tenth of a second. A correct password is "
        "remembered for ten minutes after its last use and needs no check. A request that gets no "
        "slot within five seconds gets 503.",
        min=1,
    )
    max_body_memory_mib: int = number(
        256,
        "MiB that the bodies of all current requests may take in a process of the API; the first "
        "16 KiB of each are not counted. A request that would exceed this gets 503.",
        min=80,
    )
    max_answer_memory_mib: int = number(
        128,
        "MiB that answers of more than 128 KiB may take in a process of the API until their "
        "clients have read them; clients of one address may take half. A read that would exceed "
        "this waits five seconds, and then gets 503.",
        min=32,
    )
    body_timeout: int = number(
        60,
        "Seconds the body of a request may take to arrive, plus one for each 64 KiB of it. After "
        "that its client gets 408, and its connection is closed.",
        min=1,
    )
    ssl_cert_file: str | None = text(
        None, "PEM file with the certificate chain; with ssl_key_file turns TLS on."
    )
    ssl_key_file: str | None = text(None, "PEM file with the private key of ssl_cert_file.")
    enable_ssl_api: bool | None = switch(
        None,
        "Ironic's switch of TLS: true needs a certificate, from ssl_cert_file or cert_file. Unset, "
        "ssl_cert_file alone decides.",
    )
    cert_file: str | None = text(
        None,
        "Ironic's name of ssl_cert_file; used only with enable_ssl_api = true. In [ssl] as well.",
        old=[("ssl", "cert_file")],
    )
    key_file: str | None = text(
        None,
        "Ironic's name of ssl_key_file; used only with enable_ssl_api = true. In [ssl] as well.",
        old=[("ssl", "key_file")],
    )
    server_tls_minimum_version: str = text(
        "1.2",
        "The oldest TLS version accepted from clients.",
        choices=["1.2", "1.3"],
        old=[("api", "tls_minimum_version")],
    )
    public_endpoint: str | None = url(
        "Start of the links in responses, such as https://metal.example.org. Unset, links use the "
        "address of the request."
    )
    enable_proxy_headers_parsing: bool = switch(
        False,
        "Trust the X-Forwarded-* headers of a reverse proxy: in links, in the check of Origin, and "
        "for the address of a client, which the limits for an address use. Only for an API that "
        "nothing but the proxy can reach.",
        old=[("oslo_middleware", "enable_proxy_headers_parsing")],
    )
    max_limit: int = number(
        1000, "Rows of a list page: the default, and the most a client can request.", min=1
    )
    default_version: str = text(
        "latest",
        "Microversion of requests that name none: 'latest', or a number such as 1.1, which is what "
        "clients of Ironic without a version header expect.",
        regex=r"^(latest|1\.([1-9]\d?|10\d|11[0-5]))$",
    )
    auth_strategy: str = text(
        "noauth",
        "How clients log in. keystone needs the extra of that name, and is set up in "
        "[keystone_authtoken] and [oslo_policy].",
        choices=[
            ("noauth", "every client that reaches the API may do everything"),
            ("http_basic", "users of http_basic_auth_user_file may do everything"),
            ("keystone", "tokens of OpenStack Identity, and what the policy lets their roles do"),
        ],
        deprecated_group="DEFAULT",
    )
    project_admin_can_manage_own_nodes: bool = switch(
        True,
        "With keystone, let administrators of a project enroll nodes, which their project then "
        "owns, and delete such nodes.",
    )
    allow_unauthenticated_bind: bool = switch(
        False,
        "Let noauth listen on an address other than loopback. Every client that reaches it "
        "controls the machines.",
    )
    allowed_hosts: list[str] = items(
        [],
        "With noauth, names that the Host header of requests may have besides IP addresses, "
        "localhost, the name of this machine, and the hosts of host, public_endpoint and "
        "[service_catalog]endpoint_override: a name, .example.org for all names that end so, or * "
        "for any. With allow_unauthenticated_bind, names are checked only if this is set.",
        item_type=types.String(regex=r"^(\*|\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)$"),
    )
    enable_window: bool = switch(
        True,
        "Serve the web interface at /ui/. Its files hold no data of the service and need no login; "
        "what they show is read from the API with the login of the user.",
    )
    idempotency_hours: int = number(
        24,
        "Hours for which answers to changing requests with the header Idempotency-Key are kept, "
        "for repetitions. 0: ignore the header.",
        min=0,
        max=8760,
    )
    idempotency_max_rows: int = number(
        100_000,
        "Most requests of one caller with the header Idempotency-Key that are kept; one more is "
        "429. The limit is not exact.",
        min=1,
    )
    idempotency_max_mib: int = number(
        256,
        "Size in MiB of all answers that are kept for requests with the header Idempotency-Key, "
        "beyond which further ones are 429. One caller may take a quarter of it, all projects "
        "together three quarters. The limit is not exact.",
        min=16,
    )
    project_max_nodes: int = number(
        10_000,
        "Most nodes that a project may own when its own administrator enrolls one more; beyond it "
        "the request is 409. 0: no limit. Callers with system scope have none.",
        min=0,
    )
    project_max_allocations: int = number(
        10_000, "Most allocations of a project, as project_max_nodes.", min=0
    )
    project_max_runbooks: int = number(
        1000, "Most runbooks of a project, as project_max_nodes.", min=0
    )
    project_max_node_parts: int = number(
        1000,
        "Most ports, portgroups, volume connectors or volume targets, each, that a node may have "
        "when a project adds one more, as project_max_nodes.",
        min=0,
    )
    project_max_mib: int = number(
        256,
        "Size in MiB of the JSON values and long texts of a project's nodes, allocations or "
        "runbooks, each, or of the parts of one node, beyond which a project may not add large "
        "ones, as project_max_nodes. Rows below 16 KiB are always accepted. Only fields that "
        "clients write count. Changes of a lessee count for the nodes that it leases.",
        min=0,
    )
    enable_ramdisk_endpoints: bool = switch(
        True,
        "Serve /v1/lookup, /v1/heartbeat and /v1/continue_inspection, which ramdisk agents call "
        "without authentication.",
    )
    restrict_lookup: bool = switch(
        True, "Answer /v1/lookup only for nodes in a state in which an agent may run."
    )
    ramdisk_refusals_per_minute: int = number(
        300,
        "How many refused requests of ramdisk agents one address may have for one node within a "
        "minute; further refusals are 429 until the minute is over. Agents with the right token "
        "are served all the same. 0: no limit.",
        min=0,
    )
    ramdisk_heartbeat_timeout: int = seconds(
        300,
        "Seconds within which agents are told to send a heartbeat; they send about twice as many.",
        least=1,
    )
    disallowed_enrollment_boot_modes: list[str] = boot_modes(
        "Boot modes that properties/capabilities of nodes may not get by requests."
    )
    disallow_clean_steps: list[str] = _disallowed("Clean")
    disallow_deploy_steps: list[str] = _disallowed("Deploy")
    disallow_service_steps: list[str] = _disallowed("Service")
