"""S1, manual cleaning, its command line and its option: one test per requirement.

The service is real processes, and the client the unmodified ``baremetal`` of python-ironicclient.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import service
from tests.support.conductor_fixture import listed
from tests.support.real_socket import baremetal, to_run
from tests.support.service import Service

# One worker starts the service once.
pytestmark = pytest.mark.xdist_group("manual-cleaning")

STEPS: list[dict[str, Any]] = [
    {
        "interface": "bios",
        "step": "apply_configuration",
        "args": {"settings": [{"name": "söme", "value": {"deep": [1, 2.5, None, True]}}]},
    },
    {"interface": "deploy", "step": "erase_devices"},
]
WAITS = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
LIST = ("node", "cleaning", "step", "list")


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    """The service as real processes, one for all tests."""
    with service.service() as found:
        found.start()
        found.up()
        yield found


def enroll(running: Service, name: str, **driver_info: Any) -> str:
    """Create a manageable node; what steers it is set when it is there."""
    node = running.create(name)
    running.provision(name, "manage", "manageable")
    patch = [{"op": "add", "path": "/driver_info", "value": driver_info}]
    assert running.ask("PATCH", f"/v1/nodes/{name}", patch).status_code == 200
    return node


# -- the client ------------------------------------------------------------------------------


def test_s1_30_clean_steps_are_a_file_or_standard_input_and_sent_as_they_are(
    running: Service, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "steps.json"
    file.write_text(json.dumps(STEPS))
    for name, source, stdin in (("file", str(file), ""), ("stdin", "-", json.dumps(STEPS))):
        enroll(running, name, **WAITS)
        command = ("node", "clean", "--clean-steps", source, name)
        done = baremetal(running.url, *command, stdin=stdin)
        assert done.returncode == 0, done.stderr
        node = running.settled(name, "clean wait")
        kept = node["driver_internal_info"]["clean_steps"]
        assert [{key: step[key] for key in step.keys() & STEPS[0].keys()} for step in kept] == STEPS


def test_s1_31_clean_steps_are_required_with_clean_and_an_error_with_all_other_verbs(
    running: Service, tmp_path: pathlib.Path
) -> None:
    enroll(running, "strict")
    file = tmp_path / "steps.json"
    file.write_text(json.dumps(STEPS))
    before = running.get("/v1/nodes/strict")
    done = baremetal(running.url, "node", "clean", "strict")
    assert (done.returncode, "--clean-steps" in done.stderr) == (2, True)
    for verb in ("manage", "provide", "inspect", "deploy", "undeploy", "abort"):
        done = baremetal(running.url, "node", verb, "--clean-steps", str(file), "strict")
        assert done.returncode == 2, verb
        assert "--clean-steps" in done.stderr
    assert running.get("/v1/nodes/strict") == before


def test_s1_32_the_steps_of_a_node_are_listed(running: Service) -> None:
    node = enroll(running, "offering")
    offered = running.get("/v1/nodes/offering/cleaning/steps")
    for ident in (node, "offering"):
        done = baremetal(running.url, *LIST, "-f", "json", ident)
        assert (done.returncode, json.loads(done.stdout)) == (0, offered)
    for value, count in (("0", 10), ("10.5", 1), ("1e2", 0)):
        done = baremetal(running.url, *LIST, "--min-priority", value, "-f", "json", node)
        assert json.loads(done.stdout) == offered[:count], value
    table = baremetal(running.url, *LIST, node).stdout
    for word in (*offered[0], "erase_devices_metadata", "settings (required)"):
        assert word in table
    for wrong in ("high", "nan"):
        done = baremetal(running.url, *LIST, "--min-priority", wrong, node)
        assert (done.returncode, "--min-priority" in done.stderr) == (2, True), wrong
    done = baremetal(running.url, *LIST, "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nobody" in done.stderr


@pytest.mark.parametrize(("seconds", "when"), [(45, "in 45 seconds"), (-1, "later")])
def test_s1_33_a_list_not_known_yet_is_told_with_advice_to_try_again(
    running: Service, seconds: int, when: str
) -> None:
    name = f"unknown{seconds}"
    enroll(running, name, fake_steps_unavailable=seconds)
    message = running.get(f"/v1/nodes/{name}/cleaning/steps")["message"]
    for bound in ((), ("--wait", "0.1")):
        done = baremetal(running.url, *LIST, *bound, "-f", "json", name)
        assert (done.returncode, done.stdout) == (75, "")
        assert message in done.stderr
        assert f"Try again {when}" in done.stderr
    done = baremetal(running.url, *LIST, "--wait", "-1", name)
    assert (done.returncode, "--wait" in done.stderr) == (2, True)


def test_s1_33_client_with_wait_repeats_the_request_as_the_header_says(running: Service) -> None:
    enroll(running, "learning", fake_steps_unavailable=1)
    started = to_run(running.url, *LIST, "--wait", "120", "-f", "json", "learning")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(**started, **pipes) as program:
        assert program.stderr
        said = iter(program.stderr.readline, "")
        assert any("Asking again in 1 seconds" in line for line in said)
        running.provision("learning", "clean", "manageable", clean_steps=listed("power.cycle"))
        shown, _ = program.communicate(timeout=service.PATIENCE)
    assert program.returncode == 0
    assert json.loads(shown) == running.get("/v1/nodes/learning/cleaning/steps")


# -- the option ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["automated_clean_enable", "clean_nodes", "automated_clean"])
def test_s1_10_the_option_is_automated_clean_enable_and_old_names_warn(name: str) -> None:
    with service.service(f"{name} = false\n") as found:
        program = found.start()
        found.up()
        # A clean would fail at its first step.
        enroll(found, "n1", fake_fail_steps={"deploy.erase_devices_metadata": "no"})
        found.provision("n1", "provide", "available")
        found.provision("n1", "manage", "manageable")
        # It is about automated cleaning only.
        body = {"target": "clean", "clean_steps": listed("deploy.erase_devices_metadata")}
        assert found.ask("PUT", "/v1/nodes/n1/states/provision", body).status_code == 202
        service.until(
            lambda: found.get("/v1/nodes/n1")["provision_state"] == "clean failed", "a clean"
        )
        warnings = [line for line in program.said().splitlines() if "eprecated" in line]
        told = [line for line in warnings if f"]{name} is" in line and "_enable" in line]
        # Nothing is deprecated about the name that Ironic itself has.
        assert bool(told) is (name == "clean_nodes"), warnings
