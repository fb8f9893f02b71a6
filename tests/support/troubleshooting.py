"""The answers on docs/troubleshooting.rst, and the tests that produce them.

A place is a heading and the number of an answer below it:
most have one, BMCs one for each protocol.
"""

from __future__ import annotations

import re

from tests.support.docs_pages import DOCS

Place = tuple[str, int]

_WRONG_LOGIN = "Wrong user name or password"
_NO_ANSWER = "BMC without an answer"
_LOST = "BMC lost later"

REDFISH: tuple[Place, ...] = (
    (_WRONG_LOGIN, 0),
    ("BMC not reachable", 0),
    (_NO_ANSWER, 0),
    ("BMC with an internal error", 0),
    (_LOST, 0),
    ("Power that does not change", 0),
    ("Certificate that is not trusted", 0),
)
"""Produced in ``tests/drivers/redfish/served/test_wrong_bmcs.py``."""
IPMI: tuple[Place, ...] = (
    (_WRONG_LOGIN, 1),
    (_NO_ANSWER, 1),
    (_LOST, 1),
    ("Cipher suite that the BMC does not support", 0),
)
"""Produced in ``tests/drivers/ipmi/test_emulator.py``."""
RAMDISK: tuple[Place, ...] = (
    ("Ramdisk that never calls", 0),
    ("Ramdisk that looks the node up and is silent", 0),
    ("Agent that dies", 0),
)
IMAGE: tuple[Place, ...] = (
    ("Image that is not found", 0),
    ("Image with another checksum", 0),
    ("Image server that does not answer", 0),
)
"""These two are produced in ``tests/acceptance/test_troubleshooting.py``."""
ALL = (*REDFISH, *IPMI, *RAMDISK, *IMAGE)

_HEADING = re.compile(r"^(.+)\n-{4,}\n", re.MULTILINE)
_ANSWER = re.compile(r"^\.\. code-block:: text\n\n((?:   .*\n)+)", re.MULTILINE)


def answers() -> dict[Place, str]:
    """Return each answer of the page as one line."""
    text = (DOCS / "troubleshooting.rst").read_text(encoding="utf-8")
    _, *parts = _HEADING.split(text)
    return {
        (heading, number): " ".join(line.strip() for line in shown.splitlines())
        for heading, section in zip(parts[::2], parts[1::2], strict=True)
        for number, shown in enumerate(_ANSWER.findall(section))
    }


def assert_shown(place: Place, says: str) -> None:
    """Check that the page shows this answer; a ``*`` there stands for any text."""
    wanted = answers()[place]
    assert re.fullmatch(re.escape(wanted).replace(r"\*", ".+"), says), (wanted, says)
