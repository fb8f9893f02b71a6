"""openstacksdk's own functional tests of bare metal, as they are in its wheel, all of them.

They run in a process of their own against a real service, by a cloud whose ``auth_type`` is none.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support import sdk_suite, service

CLOUDS = ("devstack", "devstack-alt", "devstack-admin", "devstack-system-admin")
"""As the tests call those who ask: a user, another, an administrator, and one of the system."""


def _modules() -> list[str]:
    """Return the modules of tests; they cannot be imported without their clouds."""
    found = importlib.util.find_spec("openstack")
    assert found is not None and found.origin is not None
    folder = pathlib.Path(found.origin).parent.joinpath(*sdk_suite.PACKAGE.split(".")[1:])
    return sorted(path.stem for path in folder.glob("test_*.py"))


MODULES = _modules()


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
            [sys.executable, "-m", sdk_suite.__name__, *MODULES],
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
    bad = [one for one in ours if one.result != "ok"]
    assert not bad, "\n\n".join(f"{one.test}: {one.result}\n{one.why}" for one in bad)


def test_the_wheel_has_the_tests_that_are_told_of() -> None:
    assert {"test_node", "test_port", "test_allocation", "test_runbooks"} <= set(MODULES)
