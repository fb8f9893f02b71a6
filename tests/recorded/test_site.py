"""The simulated BMC of benchmarks/site does what the strict BMC does, for the same tree."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import types
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from benchmarks.site import bmc as site
from benchmarks.site import trees
from benchmarks.site.wire import Connection, Request
from tests.recorded import day as days
from tests.recorded import recordings
from tests.recorded.strict_bmc import RESET_SECONDS, StrictBmc
from tests.support import event_loop
from tests.support.operator import Operator

Json = dict[str, Any]
OPERATIONS = (
    *("manage", "wrong_password", "one_refused_login", "power", "boot_device", "boot_mode"),
    *("virtual_media", "inspection", "retire"),
)
"""What a site needs of an operator's day."""
COUNTED = ("manage", "power", "virtual_media", "inspection")
MODELS = (*recordings.names(), *(("hpe", "supermicro") if os.environ.get(recordings.ALL) else ()))


class LiveTree(Mapping[str, Json]):
    """The documents of a machine as they are now."""

    def __init__(self, machine: site.Machine) -> None:
        self._machine = machine

    def __getitem__(self, path: str) -> Json:
        return self._machine.document(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._machine.tree.documents)

    def __len__(self) -> int:
        return len(self._machine.tree.documents)


class SiteBmc:
    """A simulated machine with the names by which the day looks at a strict BMC."""

    def __init__(self, model: str) -> None:
        tree = trees.load(model)
        times = site.Times((0.0, 0.0), (RESET_SECONDS, RESET_SECONDS))
        self.machine = site.Machine(0, tree, times)
        self.recorded, self.system = tree.documents, tree.system
        self.tree = LiveTree(self.machine)
        self.address = ""
        self._stack = contextlib.ExitStack()

    async def _serve(self) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            lambda: Connection(self.machine.receive, lambda _: None), "127.0.0.1", 0
        )

    def __enter__(self) -> SiteBmc:
        server = self._stack.enter_context(event_loop.running()).wait(self._serve())
        self.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def driver_info(self) -> Json:
        return {
            "redfish_address": self.address,
            "redfish_system_id": self.system,
            "redfish_username": site.USER,
            "redfish_password": site.PASSWORD,
        }

    @property
    def power(self) -> str:
        return self.machine.power

    @property
    def booted(self) -> list[str]:
        return self.machine.booted

    @property
    def resets(self) -> list[str]:
        return self.machine.resets

    @property
    def refused_logins(self) -> int:
        return self.machine.refused_logins

    def requests(self) -> dict[str, int]:
        return dict(_by_method(kind.split()[1] for _, kind in self.machine.counts.elements()))


def _by_method(methods: Iterator[str]) -> collections.Counter[str]:
    return collections.Counter(methods)


def _verdict(operator: Operator, found: StrictBmc | SiteBmc, operation: str) -> str:
    day = days.Day(operator, cast(StrictBmc, found))
    day.enroll()
    day.goes("manage")
    verdict = days.OPERATIONS[operation](day)
    for node in operator.api.get("/v1/nodes").json["nodes"]:  # its cards are those of the next one
        days.good(operator.api.put(f"/v1/nodes/{node['uuid']}/maintenance"), 202)
        days.good(operator.api.delete(f"/v1/nodes/{node['uuid']}"))
    return verdict


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("model", MODELS)
def test_site_bmc_has_the_verdicts_of_the_strict_bmc(
    operator: Operator, model: str, operation: str
) -> None:
    tree = trees.load(model)
    with SiteBmc(model) as simulated:
        seen = _verdict(operator, simulated, operation)
    with StrictBmc(tree.documents, tree.system) as strict:
        wanted = _verdict(operator, strict, operation)
    assert seen == wanted


@pytest.mark.parametrize("operation", COUNTED)
def test_site_bmc_gets_the_requests_of_the_strict_bmc(operator: Operator, operation: str) -> None:
    tree = trees.load("dell")
    with SiteBmc("dell") as simulated:
        _verdict(operator, simulated, operation)
        seen = simulated.requests()
    with StrictBmc(tree.documents, tree.system) as strict:
        _verdict(operator, strict, operation)
        wanted = _by_method(title.split()[0] for title in strict.server.log)
    # A poll of a power that changes may come once more or less.
    off = {
        method: (seen.get(method, 0), wanted[method])
        for method in {*seen, *wanted}
        if abs(seen.get(method, 0) - wanted[method]) > (operation == "power") * 3
    }
    assert off == {}


def test_site_bmc_answers_other_changes_with_501() -> None:
    machine = site.Machine(0, trees.load("dell"), site.Times())
    login = {"authorization": "Basic b3BlcmF0b3I6cmlnaHQtcGFzc3dvcmQtMA=="}
    bios = f"{machine.tree.system}/Bios/Settings"
    for path, body in ((bios, b'{"Attributes": {}}'), (machine.tree.system, b'{"AssetTag": "x"}')):
        found = machine.answer(Request("PATCH", path, "", login, body))
        assert found.status == 501
    assert machine.answer(Request("GET", bios, "", {}, b"")).status == 401
    assert machine.answer(Request("GET", bios, "", login, b"")).status == 200
