"""openstacksdk's own functional tests of bare metal, as they are in its wheel, all of them.

They run in a process of their own against a real service, by a cloud whose ``auth_type`` is none.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from ironic_lite.api import controllers
from tests.acceptance import sdk, service

CLOUDS = ("devstack", "devstack-alt", "devstack-admin", "devstack-system-admin")
"""As the tests call those who ask: a user, another, an administrator, and one of the system."""


def _modules() -> list[str]:
    """Return the modules of tests; they cannot be imported without their clouds."""
    found = importlib.util.find_spec("openstack")
    assert found is not None and found.origin is not None
    folder = pathlib.Path(found.origin).parent.joinpath(*sdk.PACKAGE.split(".")[1:])
    return sorted(path.stem for path in folder.glob("test_*.py"))


MODULES = _modules()
NEEDS: Mapping[str, str] = {
    # what a test's name begins with, and the route without which it cannot pass
    "test_allocation.": "/allocations",
    "test_inspection_rules.": "/inspection_rules",
    "test_node.TestBareMetalVif.": "/nodes/{ident}/vifs",
    "test_port_group.": "/portgroups",
    "test_runbooks.": "/runbooks",
    "test_volume_connector.": "/volume/connectors",
    "test_volume_target.": "/volume/targets",
}
ROUTES = {route.path for each in controllers.ALL for route, _ in each.exposed()}


class Result(NamedTuple):
    """How one of the library's tests ended."""

    test: str
    result: str
    seconds: float
    why: str


@pytest.fixture(scope="module")
def results() -> Iterator[list[Result]]:
    """Every test, run once."""
    with service.service() as found:
        found.start()
        found.up()
        one = {
            "auth_type": "none",
            "auth": {"endpoint": found.url},
            "baremetal_endpoint_override": found.url,
            "has_compute": False,
            "has_image": False,
        }
        clouds = found.folder / "clouds.yaml"  # which JSON is
        clouds.write_text(json.dumps({"clouds": dict.fromkeys(CLOUDS, one)}), encoding="utf-8")
        more = {"OS_CLIENT_CONFIG_FILE": str(clouds), "OS_TEST_TIMEOUT": "100"}
        done = subprocess.run(
            [sys.executable, "-m", sdk.__name__, *MODULES],
            env=service.environment(**more),
            cwd=service.ROOT,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
        yield [Result(*json.loads(line)) for line in lines]


@pytest.mark.xdist_group("sdk")
@pytest.mark.parametrize("module", MODULES)
def test_the_library_s_own_tests_pass(results: list[Result], module: str) -> None:
    ours = [one for one in results if one.test.startswith(f"{module}.")]
    assert ours
    waits = [one for one in ours if _lacks(one.test)]
    bad = [one for one in ours if one.result != "ok" and one not in waits]
    told = "\n\n".join(f"{one.test}: {one.result}\n{one.why}" for one in bad)
    assert not bad, told
    if len(waits) == len(ours):
        pytest.skip(f"there is no {_lacks(ours[0].test)} yet")


def _lacks(test: str) -> str | None:
    """Return the route that a test needs and that there is not."""
    needed = next((path for begin, path in NEEDS.items() if test.startswith(begin)), None)
    return needed if needed is not None and needed not in ROUTES else None


def test_the_wheel_has_the_tests_that_are_told_of() -> None:
    assert {"test_node", "test_port", "test_chassis", "test_driver"} <= set(MODULES)
    assert {begin.partition(".")[0] for begin in NEEDS} <= set(MODULES)
