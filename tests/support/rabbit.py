"""A new virtual host on the RabbitMQ of this machine."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import uuid
from collections.abc import Iterator

import pytest

ADDRESS = ("127.0.0.1", 5672)
PATIENCE = 300.0
"""Seconds that its control program may take, a second or two on an idle machine."""


@contextlib.contextmanager
def own_url() -> Iterator[str]:
    """Yield the transport URL of a fresh virtual host, or the default one where none may be made.

    The default one is the last resort: it keeps what others have declared, perhaps otherwise.
    Without a broker the test is skipped and says so.
    """
    host, port = ADDRESS
    try:
        socket.create_connection(ADDRESS, timeout=2).close()
    except OSError as why:
        pytest.skip(f"NOT TESTED: no RabbitMQ answers at {host}:{port}: {why}")
    name = f"test-{uuid.uuid4().hex[:8]}"
    if not _rabbitmqctl("add_vhost", name):
        yield f"rabbit://guest:guest@{host}:{port}/"
        return
    try:
        assert _rabbitmqctl("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
        yield f"rabbit://guest:guest@{host}:{port}/{name}"
    finally:
        _rabbitmqctl("delete_vhost", name)


def _rabbitmqctl(*args: str) -> bool:
    try:
        done = subprocess.run(
            ["rabbitmqctl", *args], capture_output=True, timeout=PATIENCE, check=False
        )
    except OSError:  # it is not installed
        return False
    return done.returncode == 0
