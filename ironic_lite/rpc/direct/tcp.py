"""TCP sockets that notice the loss of their peer's machine."""

from __future__ import annotations

import socket

from ironic_lite.rpc.sockets import kernel

BACKLOG = 1024
_PROBES_PER_LIMIT = 3


def connect(host: str, port: int, seconds: float, silence: int) -> socket.socket:
    """Return a socket connected to a host.

    :param seconds: limit for each address of the host.
    :param silence: as of `notice_silence`.
    :raises OSError: there is no such host, it refuses, or it does not answer.
    :raises ValueError: the name cannot be the name of a host.
    """
    sock = socket.create_connection((host, port), timeout=seconds)
    try:
        kernel.bound_sending(sock)
        notice_silence(sock, silence)
    except BaseException:
        sock.close()
        raise
    return sock


def listen(host: str, port: int, silence: int) -> socket.socket:
    """Return a socket that listens; its connections have its options.

    :param host: an address of this machine; ``::`` stands for all, of IPv4 and IPv6.
    :param silence: as of `notice_silence`.
    :raises OSError: the address is in use, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    dual = host == "::" and socket.has_dualstack_ipv6()
    server = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=dual)
    notice_silence(server, silence)
    return server


def notice_silence(sock: socket.socket, seconds: int) -> None:
    """Let the kernel end a connection whose peer acknowledges nothing for some seconds.

    Small messages are sent without delay.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    pause = max(1, seconds // _PROBES_PER_LIMIT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, pause)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, pause)
    # This limit replaces the number of probes.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)
