"""Machines from enrolment to their instance and back, with nothing made up but the machines.

The API and the conductor are processes of ours, which talk over their own RPC; BMCs are those of a
foreign emulator, which fetch media from the conductor's own file server; what a machine boots is an
unmodified agent that knows nothing but what is on its medium.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.emulators import images, machines
from tests.support import machine_room
from tests.support.service import until

ERASING = ["erase_devices_metadata", "scrub", "erase_devices"]
"""The automated clean of our machines' hardware manager."""
LINGERS = {"deploy": [{"step": "linger", "interface": "deploy", "priority": 70}]}
"""Steps of a deployment that takes until a test says so, right after the image has been written."""
OLD = b"what the last owner has left\n" * 1000


@pytest.fixture
def one() -> Iterator[machine_room.Room]:
    """A room with one machine."""
    with machine_room.serve() as found:
        yield found


def disk(machine: machines.Machine) -> bytes:
    return (machine.agent.folder / "disk.img").read_bytes()


def leave_something(machine: machines.Machine) -> None:
    """Let the disk hold what nobody is to read."""
    size = len(disk(machine))
    (machine.agent.folder / "disk.img").write_bytes(OLD.ljust(size, b"\xff"))


def lies_on(image: bytes, machine: machines.Machine) -> bool:
    """Tell whether the disk is the image byte for byte, and empty behind it."""
    found = disk(machine)
    return found.startswith(image) and not found[len(image) :].strip(b"\0")


def runs_its_instance(one: machine_room.Room, node: str, machine: machines.Machine) -> None:
    """See that the machine is on and boots from its disk, without any trace of the ramdisk."""
    assert machine.on
    assert not machine.agent.running
    device = one.up.get(f"/v1/nodes/{node}/management/boot_device")
    assert device == {"boot_device": "disk", "persistent": True}
    shown = one.up.get(f"/v1/nodes/{node}")
    assert (shown["power_state"], shown["deploy_step"], shown["last_error"]) == (
        "power on",
        {},
        None,
    )
    has_no_medium(one, node)


def has_no_medium(one: machine_room.Room, node: str) -> None:
    """See that no drive is full, no file is served, and no secret is kept."""
    assert not any(drive["inserted"] for drive in one.up.get(f"/v1/nodes/{node}/vmedia"))
    served = one.up.folder / "state/http"
    assert [path for path in served.rglob("*") if path.is_file()] == []
    told = one.up.get(f"/v1/nodes/{node}")["driver_internal_info"]
    assert not [key for key in told if key.startswith("agent_")]


def test_a_machine_lives_from_its_enrolment_through_two_instances_and_is_empty_at_last(
    one: machine_room.Room,
) -> None:
    machine = one.rack[0]
    leave_something(machine)
    node = one.enrol(0)
    one.up.provision(node, "provide", "available")
    assert set(disk(machine)) == {0}
    assert machine.agent.ran() == ERASING
    assert not machine.on

    first = images.disk(b"the first\n")
    one.fill(node, one.images.put("first.raw", first))
    one.up.provision(node, "active", "active")
    assert lies_on(first, machine)
    runs_its_instance(one, node, machine)

    second = images.disk(b"the second\n")
    one.fill(node, one.images.put("second.raw", second))
    one.up.provision(node, "rebuild", "active")
    assert lies_on(second, machine)
    runs_its_instance(one, node, machine)

    machine.agent.forget()
    shown = one.up.provision(node, "deleted", "available")
    assert set(disk(machine)) == {0}
    assert machine.agent.ran() == ERASING
    assert (shown["instance_info"], shown["power_state"]) == ({}, "power off")
    has_no_medium(one, node)
    secrets = {boot["ipa-agent-token"] for boot in machine.boots}
    assert len(secrets) == len(machine.boots) == 4
    assert machine.faults == []
    assert one.images.fetched == ["first.raw", "second.raw"]
    said = one.up.running()[0].said()
    assert not [secret for secret in secrets if secret in said]


def test_a_conductor_killed_in_mid_deployment_goes_on_and_repeats_nothing(
    one: machine_room.Room,
) -> None:
    machine = one.rack[0]
    machine.agent.steps = LINGERS
    node = one.enrol(0, automated_clean=False)
    one.up.provision(node, "provide", "available")
    image = images.disk()
    one.fill(node, one.images.put("system.raw", image))
    one.ask(node, "active")
    until(lambda: machine.agent.ran() == ["linger"], "the agent at work")
    for program in one.up.running():
        program.clear()
    machine.agent.flag()
    one.up.start()
    one.up.up()
    one.up.settled(node, "active")
    assert machine.agent.ran() == ["linger"]
    assert one.images.fetched == ["system.raw"]
    assert len(machine.boots) == 1
    assert lies_on(image, machine)
    runs_its_instance(one, node, machine)


def test_a_machine_that_dies_in_mid_step_fails_in_time_and_is_cleaned_once_it_is_repaired(
    one: machine_room.Room,
) -> None:
    """The limit is short only while no agent is to start: nobody knows how long one takes."""
    machine = one.rack[0]
    node = one.enrol(0)
    one.cleans(node, "linger")
    until(lambda: machine.agent.ran() == ["linger"], "the agent at work")
    one.reaches(node, "clean wait")
    machine.agent.kill()
    one.up.again(clean_callback_timeout=1)
    failed = one.reaches(node, "clean failed")
    assert "Timeout reached while cleaning" in failed["last_error"]
    assert "deploy.linger" in failed["last_error"]
    assert (failed["maintenance"], failed["fault"]) == (True, "clean failure")
    one.up.again(clean_callback_timeout=machine_room.PATIENCE)
    assert one.up.ask("DELETE", f"/v1/nodes/{node}/maintenance").status_code == 202
    one.up.provision(node, "manage", "manageable")
    one.up.provision(node, "provide", "available")
    assert machine.agent.ran() == ["linger", *ERASING]


def test_an_image_that_is_not_what_was_said_fails_in_the_agents_words_and_can_be_corrected(
    one: machine_room.Room,
) -> None:
    machine = one.rack[0]
    node = one.enrol(0, automated_clean=False)
    one.up.provision(node, "provide", "available")
    image = images.disk()
    good = one.images.put("system.raw", image)
    one.fill(node, {**good, "image_os_hash_value": "0" * 128})
    one.ask(node, "active")
    failed = one.reaches(node, "deploy failed")
    assert "deploy.write_image" in failed["last_error"]
    assert "checksum" in failed["last_error"]
    assert "system.raw" in failed["last_error"]
    logs = list((one.up.folder / "logs").iterdir())
    assert len(logs) == 1
    one.fill(node, good)
    one.up.provision(node, "active", "active")
    assert lies_on(image, machine)
    runs_its_instance(one, node, machine)
    assert list((one.up.folder / "logs").iterdir()) == logs  # [agent]deploy_logs_collect


def test_two_machines_at_once_each_get_what_is_theirs() -> None:
    with machine_room.serve(count=2) as both:
        nodes = [both.enrol(number) for number in range(2)]
        for node in nodes:
            both.ask(node, "provide")
        pictures = [images.disk(name.encode()) for name in nodes]
        for node, picture in zip(nodes, pictures, strict=True):
            both.up.settled(node, "available")
            both.fill(node, both.images.put(f"{node}.raw", picture))
        for node in nodes:
            both.ask(node, "active")
        for number, node in enumerate(nodes):
            both.up.settled(node, "active")
            assert lies_on(pictures[number], both.rack[number])
            runs_its_instance(both, node, both.rack[number])
            assert both.rack[number].agent.ran() == [*ERASING, "scrub"]


def test_a_clean_that_is_aborted_ends_without_blame_and_can_be_begun_again(
    one: machine_room.Room,
) -> None:
    machine = one.rack[0]
    node = one.enrol(0)
    one.cleans(node, "linger", "break_down")
    until(lambda: machine.agent.ran() == ["linger"], "the agent at work")
    one.reaches(node, "clean wait")
    one.ask(node, "abort")
    ended = one.reaches(node, "clean failed")
    assert "deploy.linger" in ended["last_error"]
    assert not ended["maintenance"]
    has_no_medium(one, node)
    one.up.provision(node, "manage", "manageable")
    one.up.provision(node, "provide", "available")
    assert machine.agent.ran() == ["linger", *ERASING]


def test_an_instance_given_up_in_mid_deployment_leaves_an_empty_machine(
    one: machine_room.Room,
) -> None:
    machine = one.rack[0]
    machine.agent.steps = LINGERS
    node = one.enrol(0)
    one.up.provision(node, "provide", "available")
    machine.agent.forget()
    one.fill(node, one.images.put("system.raw", images.disk()))
    one.ask(node, "active")
    until(lambda: machine.agent.ran() == ["linger"], "the agent at work")
    one.reaches(node, "wait call-back")
    one.up.provision(node, "deleted", "available")
    assert machine.agent.ran() == ["linger", *ERASING]
    assert set(disk(machine)) == {0}
    has_no_medium(one, node)
