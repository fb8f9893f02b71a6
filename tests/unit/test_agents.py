"""Ramdisks and their agents: notes, logs, the fast track, and how a ramdisk is built."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import os
import pathlib
import subprocess
import tarfile
import time
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.conductor.engine.notes import Notes
from ironic_lite.core import masking
from ironic_lite.domain import fast_track, states
from ironic_lite.drivers.agent import logs
from tests.support.fake_task import node

# What is noted of an agent.

AT = datetime.datetime(2026, 1, 1).isoformat()
INFO: dict[str, Any] = {"redfish_address": "https://192.0.2.1", "redfish_password": "secret"}


def _heard() -> tuple[Any, Notes]:
    """Return a node whose agent has got its token and sent a heartbeat, and its notes."""
    about = node(driver="redfish", driver_info=dict(INFO))
    notes = Notes(about)
    notes.new_token()
    notes.heard(url="https://192.0.2.9:9999", version="13.0.0", at=AT, verify_ca=None)
    return about, notes


def test_an_agent_belongs_to_the_machine_it_was_made_for() -> None:
    about, notes = _heard()
    about.driver_info = dict(reversed(INFO.items()))  # the same, told in another order
    assert notes.agent is not None
    assert notes.agent.moved is False


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("driver_info", {**INFO, "redfish_address": "https://192.0.2.2"}),
        ("driver_info", {}),
        ("driver", "ipmi"),
    ],
    ids=["another BMC", "no BMC", "another driver"],
)
def test_agent_has_moved_once_the_node_has_other_data(column: str, value: Any) -> None:
    about, notes = _heard()
    setattr(about, column, value)
    assert notes.agent is not None
    assert notes.agent.moved is True


def test_machine_fingerprint_goes_with_the_token_and_reveals_nothing() -> None:
    about, notes = _heard()
    kept = about.driver_internal_info["agent_secret_machine"]
    other, _ = _heard()
    assert kept != other.driver_internal_info["agent_secret_machine"]
    notes.forget_agent()
    assert "agent_secret_machine" not in about.driver_internal_info


# The journal in the logs of a ramdisk: which file, how much, and archives of bad will.


def packed(**files: bytes) -> bytes:
    """Return an archive; ``__`` in a name is a slash."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/").replace("_log", ".log"))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def test_journal_is_preferred_to_other_files() -> None:
    found = logs.journal_tail(packed(var__log__syslog=b"x\n", journal=b"one\ntwo\n", df=b"z"))
    assert found == ["one", "two"]
    assert logs.journal_tail(packed(df=b"z", var__log__syslog=b"x\n")) == ["x"]
    assert logs.journal_tail(packed(df=b"z")) == []


def test_long_journal_is_cut_at_a_line() -> None:
    lines = [f"line {number}" for number in range(100_000)]
    found = logs.journal_tail(packed(journal="\n".join(lines).encode()))
    assert found == lines[-len(found) :]
    assert logs.JOURNAL_BYTES - 20 < sum(len(line) + 1 for line in found) <= logs.JOURNAL_BYTES + 1


def test_damaged_archive_gives_what_can_be_read() -> None:
    whole = packed(journal=b"one\n", later=bytes(100_000))
    assert logs.journal_tail(whole[:-20]) in (["one"], [])
    for data in (b"", b"no archive", gzip.compress(b"no tar"), packed()):
        assert logs.journal_tail(data) == []


def test_text_that_is_no_text_is_replaced() -> None:
    assert logs.journal_tail(packed(journal=b"a\xff\n")) == ["a\N{REPLACEMENT CHARACTER}"]


def test_archive_that_unpacks_to_very_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_UNPACKED", 1024 * 1024)
    assert logs.journal_tail(packed(big=bytes(8 * 1024 * 1024), journal=b"never reached\n")) == []


def test_link_in_an_archive_leads_nowhere() -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        link = tarfile.TarInfo("journal")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert logs.journal_tail(made.getvalue()) == []


SENT = {"urls": ["http://a:b3f9@h/i"], "image_request_authorization": "QmVhcmVyIHRva2Vu", "id": "i"}
PLANTED = ("b3f9", "QmVhcmVyIHRva2Vu", "pa55", "9f3c")


def test_mask_hides_a_secret_that_its_node_has_got_since() -> None:
    node = {"driver_info": {"redfish_password": "first-one"}, "instance_info": {"image": "x"}}
    assert masking.mask_of_node(node)("first-one or second-one") == "****** or second-one"
    node["driver_info"]["redfish_password"] = "second-one"
    assert masking.mask_of_node(node)("first-one or second-one") == "first-one or ******"


def test_secrets_in_logs_are_masked_and_the_archive_stays_whole() -> None:
    lines = [
        f"Command standby.prepare_image with args: {{'image_info': {SENT}}}",
        json.dumps({"image_server_user": "u", "image_server_password": "pa55\\word", "é": 1}),
        "the pull secret is 9f3c-pull-secret, or ünïcode",
    ]
    files = {"bin": b"\xff\0\xfe" * 900, "journal": "\n".join(lines).encode(), "ps": b"1 init\n"}
    hide = masking.mask_of_node({"instance_info": {"image_pull_secret": "9f3c-pull-secret"}})
    kept = io.BytesIO(logs.without_secrets(packed(**files), hide))
    with tarfile.open(fileobj=kept, mode="r:gz") as found:
        read = {one.name: content.read() for one in found if (content := found.extractfile(one))}
    text = read["journal"].decode()
    assert {**files, **read} == {**files, "journal": read["journal"]}
    assert len(read["journal"]) == len(files["journal"])
    assert [secret for secret in PLANTED if secret in text] == []
    for word in ("'id': 'i'", '"image_server_user": "u"', "or ünïcode"):
        assert word in text


KEY = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *["MIIEow" * 10] * 3, "AA==", "-----END RSA"])
CUT_KEY = b"-----BEGIN PRIVATE KEY-----\nMIIEcut\n"


@pytest.mark.parametrize("known", [False, True])
def test_all_lines_of_a_private_key_in_logs_are_masked(known: bool) -> None:
    told = [f"Nov 30 host agent[7]: {line}" for line in ("before", *KEY.split("\n"), "after")]
    if known:  # without its first line, such as after a rotation
        told.remove(f"Nov 30 host agent[7]: {KEY.split()[0]} RSA PRIVATE KEY-----")
    journal = "\n".join(told).encode()
    files = {"cut.pem": CUT_KEY, "journal": journal, "ps": b"1 init\n"}
    secret = {"instance_info": {"private_key": KEY}} if known else {}
    kept = logs.without_secrets(packed(**files), masking.mask_of_node(secret))
    with tarfile.open(fileobj=io.BytesIO(kept), mode="r:gz") as found:
        read = {one.name: content.read() for one in found if (content := found.extractfile(one))}
    assert {name: len(content) for name, content in read.items()} == {
        name: len(content) for name, content in files.items()
    }
    assert b"MIIE" not in b"".join(read.values())
    for word in (b": before\n", b": after"):
        assert word in read["journal"]
    assert read["ps"] == b"1 init\n"


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["cut", "line"])
@pytest.mark.parametrize("size", [511, 512, 513, 1024])
def test_a_cut_key_that_fills_its_blocks_leaves_the_next_members(size: int, end: bytes) -> None:
    begin, shown = CUT_KEY.partition(b"\n")[0] + b"\n", b"MIIEow" * 400
    cut = (begin + shown)[: size - len(end)] + end
    kept = logs.without_secrets(
        packed(**{"cut.pem": cut, "journal": b"1\n2\n", "ps": b"1 init\n"}), masking.PROSE
    )
    assert logs.journal_tail(kept) == ["1", "2"]
    with tarfile.open(fileobj=io.BytesIO(kept), mode="r:gz") as found:
        read = {one.name: content.read() for one in found if (content := found.extractfile(one))}
    assert read["ps"] == b"1 init\n"
    assert len(read["cut.pem"]) == size
    assert b"MIIE" not in read["cut.pem"]


@pytest.mark.parametrize("unit", [b"line\n", b"bin\0"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_masked_logs_take_a_time_in_proportion(unit: bytes, pack: Callable[[bytes], bytes]) -> None:
    def seconds(size: int) -> float:
        given, begin = pack(unit * (size // len(unit))), time.process_time()
        logs.without_secrets(given, str)
        return time.process_time() - begin

    ratio = min(seconds(1 << 19) / seconds(1 << 16) for _ in range(3))
    assert ratio < 24, "eight times the logs take eight times as long, not 64 times"


def test_damaged_logs_are_kept_without_secrets_up_to_the_damage() -> None:
    whole = b"one\npassword=pa55word, plain\n"
    masked = b"one\npassword=******, plain  \n"
    assert logs.without_secrets(whole, masking.PROSE) == masked
    cut = gzip.compress(whole + os.urandom(100_000))[:-20_000]
    assert gzip.decompress(logs.without_secrets(cut, masking.PROSE)).startswith(masked)
    assert logs.without_secrets(b"", masking.PROSE) == b""


# Which nodes are on the fast track, and whether an agent counts as running.


@pytest.mark.parametrize(
    ("given", "default", "found"),
    [
        *((None, default, default) for default in (True, False)),
        *((word, False, True) for word in (True, "true", "True", "1", "yes", " on ")),
        *((word, True, False) for word in (False, "false", "0", "No", "off")),
        ("perhaps", True, True),
    ],
    ids=str,
)
def test_a_node_decides_for_itself(given: Any, default: bool, found: bool) -> None:
    info = {} if given is None else {"fast_track": given}
    assert fast_track.wanted(info, default) is found


def test_nonsense_is_refused_when_it_is_written() -> None:
    assert fast_track.read("yes") is True
    for wrong in ("perhaps", 7, "[]"):
        with pytest.raises(ValueError, match="neither true nor false"):
            fast_track.read(wrong)


def test_a_lookup_is_answered_between_verbs_too() -> None:
    more = states.FAST_TRACK_LOOKUP - states.LOOKUP_ALLOWED
    assert more == {"enroll", "manageable", "available", "servicing", "service hold"}


# The ramdisk: how it is built, and what it does after its agent has ended for a rescue.

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "ramdisk" / "rescue"
HASH = "$6$salt$of/the.password"
CALLED = ("useradd", "systemctl", "networkctl", "sleep")
_RECORD = '#!/bin/sh\necho "${0##*/} $*" >> "$LOG"\n'


class Ramdisk:
    """A folder that the script takes for ``/``, and programs that only say they were called."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.root, self.programs, self.log = folder / "root", folder / "bin", folder / "log"
        for name in ("etc/ipa-rescue-config", "etc/sudoers.d", "sys/class/net/lo"):
            (self.root / name).mkdir(parents=True)
        for name, carrier in (("eno1", "1"), ("eno2", "0")):
            (self.root / "sys/class/net" / name / "device").mkdir(parents=True)
            (self.root / "sys/class/net" / name / "carrier").write_text(f"{carrier}\n")
        self.programs.mkdir()
        for name in CALLED:
            self.program(name, _RECORD)
        self.program("chpasswd", _RECORD + 'cat >> "$LOG"\n')
        self.program("id", "#!/bin/sh\nexit 1\n")
        self.program("ip", "#!/bin/sh\necho '2: eno1  inet 192.0.2.7/24 brd 192.0.2.255'\n")
        self.answers("")

    def answers(self, variables: str) -> None:
        """Let DHCP give this; nobody answers for ""."""
        found = f'{variables} sh "$script" bound' if variables else "exit 1"
        self.program("busybox", f"#!/bin/sh\nfor script; do :; done\n{found}\n")

    def program(self, name: str, text: str) -> None:
        file = self.programs / name
        file.write_text(text)
        file.chmod(0o755)

    def told(self, password: str) -> None:
        (self.root / "etc/ipa-rescue-config/ipa-rescue-password").write_text(password)

    def run(self) -> tuple[int, list[str]]:
        """Return the script's exit status, and the calls of programs."""
        more = {"ROOT": str(self.root), "LOG": str(self.log), "TURNS": "2"}
        more["PATH"] = f"{self.programs}:/usr/bin:/bin"
        done = subprocess.run(
            ["sh", str(SCRIPT)], env=os.environ | more, capture_output=True, timeout=20, check=False
        )
        return done.returncode, self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def ramdisk(tmp_path: pathlib.Path) -> Ramdisk:
    return Ramdisk(tmp_path)


BEGUN = [
    "useradd --create-home --shell /bin/bash rescue",
    "chpasswd --encrypted",
    f"rescue:{HASH}",
    "systemctl start ssh.service",
]


def test_a_user_is_made_of_the_hash_and_let_in(ramdisk: Ramdisk) -> None:
    ramdisk.told(HASH)
    assert ramdisk.run() == (0, [*BEGUN, "sleep 30", "sleep 30"])
    rights = ramdisk.root / "etc/sudoers.d/rescue"
    assert rights.read_text() == "rescue ALL=(ALL) NOPASSWD: ALL\n"
    assert rights.stat().st_mode & 0o777 == 0o440


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("ip=198.51.100.7 mask=24", ["networkctl reconfigure eno1"]),
        ("ip=192.0.2.7 mask=24", []),
        ("", []),
    ],
    ids=["another network", "the same one", "nobody answers"],
)
def test_machine_loses_its_address_only_for_a_given_one(
    ramdisk: Ramdisk, answer: str, asked: list[str]
) -> None:
    ramdisk.told(HASH)
    ramdisk.answers(answer)
    assert ramdisk.run() == (0, [*BEGUN, *asked, "sleep 30", *asked, "sleep 30"])


@pytest.mark.parametrize("text", ["", "let me in", "$"])
def test_invalid_password_hash_permits_no_login(ramdisk: Ramdisk, text: str) -> None:
    ramdisk.told(text)
    assert ramdisk.run() == (1, [])


@pytest.mark.parametrize(("body", "status"), [("false; true", 1), ("true", 0)])
def test_a_stage_of_the_build_ends_at_the_command_that_fails(
    tmp_path: pathlib.Path, body: str, status: int
) -> None:
    cut = "sed -n '/^say()/p; /^once()/,/^}/p' \"$0\""
    script = f'set -euo pipefail; work=$1; stage() {{ {body}; }}; eval "$({cut})"; once stage'
    build = SCRIPT.parents[1] / "ramdisk.sh"
    command = ["bash", "-c", script, str(build), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    assert (done.returncode, (tmp_path / "stage.done").exists()) == (status, status == 0)
