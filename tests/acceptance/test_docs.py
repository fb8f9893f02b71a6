"""The README and the pages are true: their commands are run, and answer what is shown."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.emulators.agent import process
from tests.support import prefork, service
from tests.support.ports import free_port

# The README is true: every command in it is run, and everything it points to is there.

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
    said = run(*MAKE, "test", "WORKERS=0", "ARGS=-q -p no:cacheprovider tests/unit/test_queries.py")
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


# The pages are true: their shell examples are run in their order, and answer what is shown.
#
# A ``json`` block is an excerpt of what the last curl before it answered: its keys and values must
# be found there, ``*`` in a text stands for anything. A request that is to be refused stands after
# a comment ``# refused with STATUS``, and a command that has to fail after ``# fails``.

DOCS = service.ROOT / "docs"
_BLOCK = re.compile(
    r"^(?P<in> *)\.\. code-block:: (?P<kind>sh|json|ini)\n\n(?P<text>(?:(?P=in)   .*\n|\n)+)",
    re.MULTILINE,
)
_REFUSED = re.compile(r"^# refused with (\d{3})$", re.MULTILINE)
_FAILS = re.compile(r"^# fails\n(.+)$", re.MULTILINE)
_SHELL = """
set -eu
expected=
curl() {
  status=$(command curl --max-time 60 -o "$ANSWER" -w '%{http_code}' "$@")
  if [ -n "$expected" ]; then [ "$status" = "$expected" ] || failed=1
  else case $status in 2*) ;; *) failed=1;; esac; fi
  expected=
  cat "$ANSWER"
  if [ -n "${failed:-}" ]; then echo "$status for: $*" >&2; exit 1; fi
}
"""


@dataclasses.dataclass(frozen=True)
class Block:
    """A piece of a page: commands, what the last of them answered, or a configuration."""

    kind: str
    text: str


def blocks(page: pathlib.Path) -> list[Block]:
    """Return the page's shell, json and ini blocks, in order."""
    found = []
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        lines = (line.removeprefix(match["in"] + "   ") for line in match["text"].splitlines())
        found.append(Block(match["kind"], "\n".join(lines)))
    return found


def speaks_to_a_service(page: pathlib.Path) -> bool:
    return any(f":{PORT}" in block.text for block in blocks(page) if block.kind == "sh")


CONFIGURED = frozenset({"boot", "erasure", "manual-management"})
"""Pages whose ini blocks are in force while their examples are run."""
_KEY = re.compile(r"^ +(openssl genpkey .*)$", re.MULTILINE)
"""A command that makes a key which the configuration of the page names."""
CONFIGURATION = "/etc/ironic-lite/"
PAGES = [page for page in sorted(DOCS.glob("*.rst")) if speaks_to_a_service(page)]
_FEATURES = {
    "allocations": ("events",),
    "batches": ("batches",),
    "cli": ("batches", "erasures", "events", "why"),
    "doctor": ("doctor",),
    "erasure": ("erasures",),
    "monitoring": ("attention", "batches"),
    "search": ("search",),
    "times": ("events", "statistics"),
    "watching": ("events",),
    "webhooks": ("webhooks",),
    "why": ("why",),
    "window": ("statistics",),
}
"""Features that the examples of a page use."""


def shown(part: Any, whole: Any) -> bool:
    """Tell whether an excerpt is found in an answer."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and shown(value, whole[key]) for key, value in part.items()
        )
    if isinstance(part, list):
        fits = isinstance(whole, list) and len(part) == len(whole)
        return fits and all(map(shown, part, whole))
    if isinstance(part, str):
        return isinstance(whole, str) and fnmatch.fnmatchcase(whole, part)
    return bool(part == whole) and type(part) is type(whole)


def script(page: pathlib.Path, folder: pathlib.Path, port: int) -> tuple[str, dict[int, Any]]:
    """Return the page as one shell script, and what its answers must contain, by number."""
    lines, excerpts = [_SHELL], {}
    for number, block in enumerate(blocks(page)):
        if block.kind == "ini":
            continue
        if block.kind == "json":
            excerpts[number] = orjson.loads(block.text)
            lines.append(f'cp "$ANSWER" {folder}/{number}')
        else:
            text = _FAILS.sub(r"if \1; then echo 'no failure' >&2; exit 1; fi", block.text)
            lines.append(_REFUSED.sub(r"expected=\1", text))
    return "\n".join(lines).replace(f":{PORT}/", f":{port}/"), excerpts


def configuration(page: pathlib.Path, folder: pathlib.Path) -> str:
    """Return the settings of a page; make the key that they name, by the command of the page."""
    for command in _KEY.findall(page.read_text(encoding="utf-8")):
        words = command.replace(CONFIGURATION, f"{folder}/").split()
        subprocess.run(words, check=True, capture_output=True)
    settings = [block.text for block in blocks(page) if block.kind == "ini"]
    return "\n".join(settings).replace(CONFIGURATION, f"{folder}/")


@contextlib.contextmanager
def warm_client() -> Iterator[pathlib.Path]:
    """Give a folder whose ``baremetal`` starts at once; tests/spec start its script, too."""
    with service.short_folder() as folder:
        door = prefork.ShellProxy(folder, service.SCRIPTS / "baremetal", service.environment())
        try:
            yield folder
        finally:
            door.close()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=pytest.mark.feature(*_FEATURES.get(page.stem, ())))
        for page in PAGES
    ],
)
def test_a_page_does_what_it_says(page: pathlib.Path, tmp_path: pathlib.Path) -> None:
    settings = configuration(page, tmp_path) if page.stem in CONFIGURED else ""
    with service.service(settings) as found:
        found.start("ironic-lite")
        found.up()
        text, excerpts = script(page, tmp_path, found.port)
        text = text.replace(CONFIGURATION, f"{tmp_path}/")
        with warm_client() as programs:
            done = subprocess.run(
                ["bash", "-c", text],
                env=service.environment(
                    ANSWER=str(tmp_path / "answer"),
                    PATH=f"{programs}:{service.SCRIPTS}:{os.environ['PATH']}",
                ),
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=2 * service.PATIENCE,
                check=False,
            )
    assert done.returncode == 0, done.stdout + done.stderr
    for number, excerpt in excerpts.items():
        answer = orjson.loads((tmp_path / str(number)).read_bytes())
        assert shown(excerpt, answer), orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()


@pytest.mark.parametrize("page", [*PAGES, service.ROOT / "README.rst"], ids=lambda page: page.stem)
def test_examples_of_a_page_poll_nothing(page: pathlib.Path) -> None:
    """A request waits by itself: see docs/watching.rst."""
    shell = "\n".join(block.text for block in blocks(page) if block.kind == "sh")
    assert not re.search(r"(?<![-&?\"])\b(sleep|while|until)\b(?!=)", shell), page


def test_the_pages_for_operators_have_examples() -> None:
    assert {"cleaning", "cli", "retirement", "operating"} <= {page.stem for page in PAGES}
