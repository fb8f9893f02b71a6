"""The README is true: every command in it is run, and everything it points to is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import orjson

from tests.emulators.agent import process
from tests.support import service
from tests.support.ports import free_port

README = (service.ROOT / "README.rst").read_text(encoding="utf-8")
BLOCKS = [
    [line.strip() for line in block.splitlines() if line.strip()]
    for block in re.findall(r"\.\. code-block:: sh\n\n((?:   .*\n|\n)+)", README)
]
MAKE = ["make", "-o", f"{sys.prefix}/.installed", f"VENV={sys.prefix}"]
"""Make, with the environment the tests run in: it is installed already."""
PORT = "6385"


def run(*command: str, timeout: float = 2 * service.PATIENCE) -> str:
    """Run a command in the checkout; return what it prints."""
    plain = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    done = subprocess.run(
        command,
        cwd=service.ROOT,
        env=plain,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_commands_are_those_that_are_run_here() -> None:
    first, second, third = BLOCKS
    assert first == ["make demo", "make test"]
    assert second == ["make venv", ".venv/bin/ironic-lite"]
    assert len(third) == 8


def test_make_demo_works() -> None:
    said = run(*MAKE, "demo", f"ARGS=--port {free_port()}")
    assert "demo-3 took" in said


def test_make_test_works() -> None:
    there = process.ENVIRONMENT.exists()
    # A suite that ran itself would not end.
    said = run(*MAKE, "test", "WORKERS=0", "ARGS=-q -p no:cacheprovider tests/unit/test_context.py")
    assert " passed" in said
    # Made anew, the agents' environment would be gone from under the tests beside this one.
    assert not (there and "installing ironic-python-agent" in said)


def test_make_venv_leaves_an_environment_alone_that_is_ready() -> None:
    assert "Nothing to be done" in run(*MAKE, "venv")


def test_eight_lines_of_curl_clean_a_node() -> None:
    with service.service(warm=False) as found:
        # As the README starts it, but with a folder and a port of our own.
        found.start(BLOCKS[1][1].removeprefix(".venv/bin/"))
        found.up()
        # In a shell of its own, as if pasted; and a refusal is a failure here.
        strict = 'set -eu; curl() { command curl --silent --fail-with-body "$@"; echo; }'
        script = "\n".join([strict, *BLOCKS[2]]).replace(f":{PORT}/", f":{found.port}/")
        answers = run("bash", "-c", script).split("\n")
    said = [orjson.loads(line) for line in answers if line.startswith(("{", "["))]
    created, managed, steps, cleaned, states = said
    assert created["provision_state"] == "enroll"
    assert [managed["state"], cleaned["state"]] == ["done", "done"]
    assert {"deploy", "raid", "bios"} <= {step["interface"] for step in steps}
    assert states["provision_state"] == "manageable"
    assert states["last_error"] is None


def test_every_target_of_make_exists() -> None:
    makefile = (service.ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"``make ([a-z]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_page_it_points_to_exists() -> None:
    links = re.findall(r"<([^>`]+)>`_", README)
    assert links
    missing = [link for link in links if not (service.ROOT / link).is_file()]
    assert missing == []


def test_every_program_it_names_is_installed() -> None:
    for line in BLOCKS[1][1:]:
        name = shlex.split(line)[0].rpartition("/")[2]
        assert (service.SCRIPTS / name).is_file()
