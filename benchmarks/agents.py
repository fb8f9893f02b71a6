"""Agents of many nodes in one process, which report over TLS that their command runs.

They run in a process of their own, so that their cost is not counted for heartbeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator

import orjson

from benchmarks import harness
from tests.support.ports import free_port


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Serve; gives the URL of all agents and their certificate, of the kind that agents make."""
    pem, key = folder / "agent.pem", folder / "agent.key"
    create = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384")
    name = ("-nodes", "-days", "2", "-subj", "/CN=agent", "-addext", "subjectAltName=IP:127.0.0.1")
    command = (*create, *name, "-keyout", str(key), "-out", str(pem))
    subprocess.run(command, check=True, capture_output=True, timeout=harness.PATIENCE)
    port = free_port()
    with harness.program(folder, "benchmarks.agents", str(port), str(pem), str(key)):
        harness.wait_until(lambda: _listening(port), "the agents")
        yield f"https://{harness.HOST}:{port}", pem.read_text()


def _listening(port: int) -> bool:
    with socket.create_connection((harness.HOST, port), timeout=harness.PATIENCE):
        return True


async def _respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        command = head.split(b" ", 2)[1].partition(b"?")[0].rpartition(b"/")[2].decode()
        body = orjson.dumps(
            {
                "id": command,
                "command_name": "execute_clean_step",
                "command_status": "RUNNING",
                "command_error": None,
                "command_result": None,
            }
        )
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n")
        writer.write(b"Content-Type: application/json\r\n")
        writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
    writer.close()


async def _serve(port: int, pem: str, key: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem, key)
    server = await asyncio.start_server(_respond, harness.HOST, port, ssl=tls, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
