"""The pages are true: their shell examples are run in their order, and answer what is shown.

A ``json`` block is an excerpt of what the last curl before it answered: its keys and values must be
found there, ``*`` in a text stands for anything. A request that is to be refused stands after a
comment ``# refused with STATUS``, and a command that has to fail after ``# fails``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.support import prefork, service

DOCS = service.ROOT / "docs"
PORT = "6385"
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
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
