"""Options of [oslo_messaging_local] and [direct], and important options of the oslo libraries."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from ironic_lite.core.options import rows

LOCAL = (
    cfg.IntOpt(
        "frame_limit_mib",
        default=72,
        min=1,
        max=4095,
        help="Largest message between API and conductor, in MiB. A provision request may carry a "
        "config drive of 64 MiB; a request that is larger than this is refused with status 413.",
    ),
)

DIRECT = (
    cfg.StrOpt(
        "cert_file",
        sample_default="/etc/ironic-lite/rpc.pem",
        help="PEM file with the certificate of this machine for transport_url = direct://, and "
        "those of intermediate authorities. A conductor's certificate has its [DEFAULT]host as "
        "subject alternative name. A changed file is read for new connections.",
    ),
    cfg.StrOpt(
        "key_file",
        sample_default="/etc/ironic-lite/rpc.key",
        help="PEM file with the key of cert_file, without a password.",
    ),
    cfg.StrOpt(
        "ca_file",
        sample_default="/etc/ironic-lite/rpc-ca.pem",
        help="PEM file with the authority that signs the certificates of all machines of the "
        "service, and nothing else: each of its certificates allows calls of all conductors.",
    ),
    cfg.StrOpt(
        "bind_host",
        default="0.0.0.0",
        help="Address on which a conductor listens; :: is all addresses of IPv6 and IPv4. "
        "Clients connect to its [DEFAULT]host.",
    ),
    cfg.PortOpt(
        "port",
        default=6386,
        min=1,
        max=65535 - 99,
        help="TCP port of each conductor; the same on all machines. The further processes of "
        "[conductor]processes use the following ports.",
    ),
    rows.seconds(
        "connect_timeout",
        5,
        "Seconds in which an address of a conductor must accept a connection, and the conductor "
        "must complete the handshake. After them another conductor is called.",
        least=1,
    ),
    rows.seconds(
        "silence_timeout",
        10,
        "Seconds without an acknowledgement after which the machine at the other end of a "
        "connection counts as dead.",
        least=3,
    ),
)

LIBRARY: Sequence[cfg.Opt] = (
    cfg.StrOpt(
        "transport_url",
        secret=True,
        sample_default="local://",
        help="URL of the RPC transport. local:// is unix sockets in state_path, for one machine; "
        "direct:// is TCP with TLS between several, see [direct]; "
        "rabbit://user:password@host:5672/vhost is a broker for several.",
    ),
    rows.seconds("rpc_response_timeout", 60, "Seconds the API waits for an answer of a conductor."),
    cfg.BoolOpt("debug", default=False, help="Log at level DEBUG instead of INFO."),
    cfg.StrOpt("log_file", help="Log to this file instead of standard error."),
    cfg.StrOpt("log_dir", help="Folder of log_file, or of one log file per process."),
    cfg.BoolOpt("use_json", default=False, help="Log one JSON object per line."),
    cfg.StrOpt(
        "logging_context_format_string",
        sample_default="%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s "
        "[%(request_id)s %(user_name)s] %(message)s",
        help="The form of log lines that are written for a request.",
    ),
)
"""Common options of oslo.messaging and oslo.log: only documented here."""

LIBRARY_NOTIFICATIONS: Sequence[cfg.Opt] = (
    cfg.MultiStrOpt(
        "driver",
        default=[],
        sample_default=["messagingv2"],
        help="How notifications are sent: messagingv2 to a broker or over local://, log to the "
        "log, noop nowhere. May be given several times. Unset, none are sent.",
    ),
    cfg.StrOpt(
        "transport_url",
        secret=True,
        help="URL of the notifications' transport. Unset, [DEFAULT]transport_url, unless that is "
        "direct://, which carries no notifications.",
    ),
    cfg.IntOpt(
        "retry",
        default=-1,
        help="How many times a notification is sent to an unreachable broker before it is lost; "
        "-1 retries for ever, while further notifications wait.",
    ),
)
"""The same for oslo.messaging's group [oslo_messaging_notifications]."""
