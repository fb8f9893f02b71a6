"""Fleet of Redfish BMCs in one process, each at its own address in 127.0.0.0/8.

They respond after a fixed time; one event loop serves all, so that the conductor is the limit. It
is run as ``python -m benchmarks.bmc PORT SECONDS CORE``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import orjson
import psutil

from benchmarks import harness
from tests.support.ports import free_port

SECONDS = 0.05
"""Response time of a BMC in seconds."""
SYSTEM = "/redfish/v1/Systems/1"
USER, PASSWORD = "admin", "secret"
HANGING, REFUSING, FLAPPING = 0, 1, 2
"""Faults of a BMC: it never responds; its port is closed; it drops every second connection."""

_ROOT = {
    "@odata.id": "/redfish/v1/",
    "Id": "RootService",
    "Name": "Root Service",
    "RedfishVersion": "1.15.0",
    "Systems": {"@odata.id": "/redfish/v1/Systems"},
    "SessionService": {"@odata.id": "/redfish/v1/SessionService"},
    "Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}},
}
_SYSTEM = {
    "@odata.id": SYSTEM,
    "Id": "1",
    "Name": "System",
    "PowerState": "On",
    # Servers of today have about as much text here.
    "Oem": {f"Property{n}": {"@odata.id": f"{SYSTEM}/Oem/Part{n}"} for n in range(60)},
}
_PAGES = {
    "/redfish/v1": orjson.dumps(_ROOT),
    "/redfish/v1/SessionService": orjson.dumps(
        {
            "@odata.id": "/redfish/v1/SessionService",
            "Id": "SessionService",
            "Name": "Sessions",
            "Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"},
        }
    ),
    SYSTEM: orjson.dumps(_SYSTEM),
}
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


def address(number: int) -> str:
    """Return the IPv4 address of a healthy BMC."""
    return f"127.{1 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"


def faulty_address(number: int) -> str:
    """Return the IPv4 address of a faulty BMC, whose fault is ``number % 3``."""
    return f"127.{101 + number % 3}.{number // 750}.{number // 3 % 250 + 1}"


def fault_of(host: str) -> int | None:
    """Return the fault of the BMC at an address, None if it is healthy."""
    fault = int(host.split(".")[1]) - 101
    return fault if fault >= 0 else None


class _Bmc(asyncio.Protocol):
    """One connection to one BMC."""

    seconds = SECONDS
    requests = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or len(body) < (int(length[1]) if length else 0):
            return
        self._data = b""
        _Bmc.requests += 1
        fault = fault_of(self._transport.get_extra_info("sockname")[0])
        if fault == HANGING:
            return
        if fault == FLAPPING and _Bmc.requests % 2:
            self._transport.close()
            return
        asyncio.get_running_loop().call_later(self.seconds, self._respond, head)

    def _respond(self, head: bytes) -> None:
        method, path = head.split(b" ", 2)[:2]
        page = _PAGES.get(path.decode().rstrip("/"))
        headers = b""
        if method == b"POST":
            status, page = b"201 Created", b"{}"
            headers = (
                b"X-Auth-Token: 0123456789\r\nLocation: /redfish/v1/SessionService/Sessions/1\r\n"
            )
        elif method == b"DELETE":
            status, page = b"200 OK", b"{}"
        else:
            status = b"200 OK" if page else b"404 Not Found"
        closing = b"\r\nconnection: close" in head.lower()
        self._transport.write(
            b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n%s\r\n%s"
            % (
                status,
                headers,
                len(page or b"{}"),
                b"Connection: close\r\n" if closing else b"",
                page or b"{}",
            )
        )
        if closing:
            self._transport.close()


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Bmc, "0.0.0.0", port, backlog=4096)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def fleet(
    core: int | None = None, *, seconds: float = SECONDS
) -> Iterator[tuple[int, psutil.Process]]:
    """Run the BMCs, perhaps on one core; gives their port and process."""
    port = free_port()
    command = (sys.executable, "-m", "benchmarks.bmc", str(port), str(seconds), str(core))
    with subprocess.Popen(command) as process:
        try:
            harness.wait_until(lambda: _listening(port), "a BMC")
            yield port, psutil.Process(process.pid)
        finally:
            process.kill()


def _listening(port: int) -> bool:
    with harness.Client(port):
        return True


def main(port: str, seconds: str, core: str) -> None:
    """Serve until killed."""
    if core != "None":
        os.sched_setaffinity(0, {int(core)})
    _Bmc.seconds = float(seconds)
    asyncio.run(_serve(int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
