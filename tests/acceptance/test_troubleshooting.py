"""Symptoms of docs/troubleshooting.rst with real ramdisk agents: ``why`` answers as it shows.

Machines are fake, so a test starts the agent of a machine where the machine would have booted it.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import pytest

from tests.emulators import images
from tests.emulators.agent import process
from tests.support import http_nodes, troubleshooting
from tests.support.http_nodes import asks, reaches, told
from tests.support.service import Service, service, until

pytestmark = pytest.mark.feature("why")

SETTINGS = """
node_locked_retry_interval = 1
clean_callback_timeout = 1800
check_provision_state_interval = 1
[DEFAULT]
enabled_deploy_interfaces = direct
"""
Answers = dict[str, str]


@pytest.fixture(scope="module")
def up() -> Iterator[Service]:
    process.available()
    with service(SETTINGS) as found:
        found.start()
        found.up()
        yield found


@contextlib.contextmanager
def machine(up: Service, node: str, number: int) -> Iterator[process.Agent]:
    """Enrol a node with a real agent, which is not started."""
    mac = f"52:54:00:00:00:{number:02x}"
    with process.agent([mac], up.url) as found:
        http_nodes.enrol(up, mac, node=node, deploy_interface="direct", automated_clean=False)
        yield found


def says(up: Service, node: str) -> str:
    return str(up.get(f"/v1/nodes/{node}/why")["says"])


# -- images ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_images(up: Service, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """The answers about three images that cannot be written."""
    folder: pathlib.Path = tmp_path_factory.mktemp("images")
    with machine(up, "i1", 1) as agent, images.serve(folder) as web:
        up.provision("i1", "provide", "available")
        good = web.put("ubuntu.raw", images.disk())
        bad = {
            "Image that is not found": {"image_source": f"{web.url}/ubunut.raw"},
            "Image with another checksum": {"image_os_hash_value": "0" * 128},
            "Image server that does not answer": {"image_source": "http://127.0.0.1:9/ubuntu.raw"},
        }
        return {
            heading: answer_of_deployment(up, agent, {**good, **change})
            for heading, change in bad.items()
        }


def answer_of_deployment(up: Service, agent: process.Agent, info: dict[str, str]) -> str:
    """Deploy an image that cannot be written; return what is said of it."""
    patch = [{"op": "add", "path": "/instance_info", "value": info}]
    assert up.ask("PATCH", "/v1/nodes/i1", patch).status_code == 200
    agent.kill()
    asks(up, "active", node="i1")
    reaches(up, "wait call-back", node="i1")
    agent.start()
    reaches(up, "deploy failed", node="i1")
    return says(up, "i1")


@pytest.mark.parametrize("place", troubleshooting.IMAGE, ids=str)
def test_page_shows_the_answer_about_an_image(
    of_images: Answers, place: troubleshooting.Place
) -> None:
    troubleshooting.assert_shown(place, of_images[place[0]])


# -- ramdisks --------------------------------------------------------------------------------


def dies(up: Service, agent: process.Agent, node: str) -> None:
    """Kill the agent in the middle of its step."""
    agent.start()
    until(lambda: agent.ran() == ["linger"], "linger")
    until(lambda: up.get(f"/v1/nodes/{node}")["clean_step"].get("step") == "linger", "clean_step")
    reaches(up, "clean wait", node=node)
    agent.kill()


def looks_up(up: Service, agent: process.Agent, node: str) -> None:
    """Start an agent whose heartbeats are refused, because its own address is without TLS."""
    agent.parameters["enable_auto_tls"] = "false"
    agent.start()
    until(lambda: "callback_url: must be https" in agent.log(), "a refusal in its journal")
    assert told(up, node=node)["agent_secret_token"]


def does_not_reach(up: Service, agent: process.Agent, node: str) -> None:
    """Start an agent that has no way to the API."""
    agent.api = "http://127.0.0.1:9"
    agent.start()
    until(lambda: "attempting to perform lookup" in agent.log(), "a look-up")


def does_not_boot(up: Service, agent: process.Agent, node: str) -> None:
    """Start nothing, as with a DHCP server that is silent."""


RAMDISKS = {
    "dies": (dies, "Agent that dies"),
    "looks-up": (looks_up, "Ramdisk that looks the node up and is silent"),
    "does-not-reach": (does_not_reach, "Ramdisk that never calls"),
    "does-not-boot": (does_not_boot, "Ramdisk that never calls"),
}


@pytest.fixture(scope="module")
def of_ramdisks(up: Service) -> Answers:
    """The answers about ramdisks that fell silent, by the name of the node.

    The limit is short only when all are silent, because an agent starts slowly on a busy machine.
    """
    with contextlib.ExitStack() as stack:
        for number, (node, (plays, _)) in enumerate(RAMDISKS.items(), 2):
            agent = stack.enter_context(machine(up, node, number))
            http_nodes.cleans(up, "linger", node=node)
            reaches(up, "clean wait", node=node)
            plays(up, agent, node)
        up.again(clean_callback_timeout=1)
        for node in RAMDISKS:
            reaches(up, "clean failed", node=node)
        return {node: says(up, node) for node in RAMDISKS}


@pytest.mark.parametrize("node", RAMDISKS)
def test_page_shows_the_answer_about_a_ramdisk(of_ramdisks: Answers, node: str) -> None:
    (place,) = (one for one in troubleshooting.RAMDISK if one[0] == RAMDISKS[node][1])
    troubleshooting.assert_shown(place, of_ramdisks[node])


def test_each_ramdisk_of_the_page_is_played() -> None:
    assert {heading for _, heading in RAMDISKS.values()} == {
        one for one, _ in troubleshooting.RAMDISK
    }
