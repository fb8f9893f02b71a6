"""The tests' own agent cannot touch the machine that runs the tests, whatever it is told to do.

It is tried out by a program that is run as the agent is run: the same user, no capability, no way
to get one, and the same devices.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator

import pytest

from tests.emulators.agent import process

TRIES = """
import json, os, stat, sys

def refused(name, what, *about):
    try:
        what(*about)
    except OSError as why:
        return None
    return name

def write(path):
    os.close(os.open(path, os.O_WRONLY))

done, nodes = [], []
for folder, _, names in os.walk("/dev"):
    for name in names:
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        if stat.S_ISBLK(mode):
            nodes.append(path)
            done.append(refused(path, write, path))
for path in ("/dev/mem", "/dev/loop-control", "/proc/sysrq-trigger", "/etc/passwd"):
    done.append(refused(path, write, path))
done += [refused("signal", os.kill, int(pid), 0) for pid in sys.argv[1:]]
done += [refused("setuid", os.setuid, 0), refused("chroot", os.chroot, "/")]
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "done": [name for name in done if name],
    "nodes": nodes,
    **{key: status[key].split() for key in status if key.startswith("Cap")},
    **{key: status[key].split() for key in ("Uid", "Gid", "NoNewPrivs", "Groups")},
}))
"""
NOTHING = ["0000000000000000"]


@pytest.fixture(params=[False, True], ids=["file", "loop device"])
def machine(request: pytest.FixtureRequest) -> Iterator[process.Agent]:
    """A machine that is off, with a disk of either kind."""
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: only root gives its agent to another user")
    with process.agent(["52:54:00:00:00:01"], loop=request.param) as found:
        yield found


def test_nothing_of_the_host_can_be_opened_signalled_or_become(machine: process.Agent) -> None:
    own = [] if machine.loop is None else [machine.loop.device]
    said = json.loads(machine.run("-c", TRIES, "1", str(os.getpid())))
    assert said["done"] == own
    if machine.loop is not None:
        assert said["nodes"] == own
    held = [said[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
    assert held == [NOTHING] * 5
    assert (said["NoNewPrivs"], said["Groups"]) == (["1"], [])
    assert said["Uid"] == said["Gid"] == [str(process.UID)] * 4


def test_the_agent_itself_is_run_so(machine: process.Agent) -> None:
    machine.start()
    machine.answers()
    status = pathlib.Path(f"/proc/{machine.pid}/status").read_text()
    words = [line.split() for line in status.splitlines()]
    found = {one[0]: one[1:] for one in words if one}
    assert found["Uid:"] == [str(process.UID)] * 4
    assert (found["NoNewPrivs:"], found["CapEff:"], found["CapBnd:"]) == (["1"], NOTHING, NOTHING)
