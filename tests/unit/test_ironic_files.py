"""Files of Ironic beside ironic.conf: policy files, password files, and what is neither."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from ironic_lite.cmd import status

pytestmark = pytest.mark.feature("move_in")

HASH = "$2y$05$abcdefghijklmnopqrstuuAbCdEfGhIjKlMnOpQrStUvWxYz01234"
OTHER_HASHES = (
    "$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/",
    "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
    "$6$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2",
    "rqXexS6ZhobKA",
)


def check(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, list[dict[str, Any]]]:
    """Run the command; return its exit status and its rows."""
    code = status.check_ironic_conf([*map(str, argv), "--json"])
    return code, json.loads(capsys.readouterr().out)


def verdicts(rows: list[dict[str, Any]], kind: str) -> list[tuple[str, str, int]]:
    return [(row["name"], row["verdict"], row["line"]) for row in rows if row["kind"] == kind]


def fill(folder: pathlib.Path, **files: str) -> pathlib.Path:
    """Write files; two underscores stand for a dot."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


# -- a folder --------------------------------------------------------------------------------


def test_each_line_of_a_folder_has_a_verdict_and_no_secret_is_shown(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = OTHER_HASHES[0]
    fill(
        tmp_path,
        ironic__conf="[DEFAULT]\nhost = c1\n[api]\nauth_strategy = keystone\n"
        "[keystone_authtoken]\npassword = hunter2\n",
        policy__yaml='"show_password": "!"\n"baremetal:node:get": "role:admin"\n',
        htpasswd=f"ann:{HASH}\nbob:{other}\n",
        rootwrap__txt="x",
    )
    assert status.check_ironic_conf([str(tmp_path), "--all"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"kept     [DEFAULT]host = c1 ({tmp_path}/ironic.conf:2): use another name than Ironic's "
        "conductor has",
        f"kept     [api]auth_strategy = keystone ({tmp_path}/ironic.conf:4)",
        f"kept     [keystone_authtoken]password = ****** ({tmp_path}/ironic.conf:6)",
        f"ignored  rule show_password = ! ({tmp_path}/policy.yaml:1): no rule shows secrets here",
        f"kept     rule baremetal:node:get = role:admin ({tmp_path}/policy.yaml:2)",
        f"kept     user ann ({tmp_path}/htpasswd:1)",
        f"refused  user bob ({tmp_path}/htpasswd:2): no bcrypt hash; use htpasswd -B",
        f"ignored  {tmp_path}/rootwrap.txt: no file of options, rules or users; not read",
    ]


def test_options_say_which_kind_a_file_has(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(
        tmp_path,
        ironic__conf="[DEFAULT]\nhttp_basic_auth_user_file = /etc/ironic/logins.conf\n"
        "[json_rpc]\nhttp_basic_auth_user_file = /etc/ironic/htpasswd-rpc\n"
        "[oslo_policy]\npolicy_file = rights.yaml\npolicy_dirs = more\n",
        logins__conf=f"ann:{HASH}\n",
        rights__yaml="baremetal:node:get: role:x\n",
        htpasswd_rpc="unused",
    )
    (tmp_path / "htpasswd_rpc").rename(tmp_path / "htpasswd-rpc")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/ports.json").write_text('{"baremetal:port:get": ""}')
    code, rows = check(capsys, tmp_path)
    assert verdicts(rows, "user") == [("ann", "kept", 1)]
    assert [name for name, *_ in verdicts(rows, "rule")] == [
        *("baremetal:node:get", "baremetal:port:get")
    ]
    assert verdicts(rows, "file")[-1] == (str(tmp_path / "htpasswd-rpc"), "ignored", 0)
    assert code == 0


def test_hidden_names_of_a_mounted_volume_are_not_read_twice(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "..2026_11_30").mkdir()
    (tmp_path / "..2026_11_30/ironic.conf").write_text("[api]\nport = 80\n")
    (tmp_path / "..data").symlink_to("..2026_11_30")
    (tmp_path / "ironic.conf").symlink_to("..data/ironic.conf")
    _, rows = check(capsys, tmp_path)
    assert [row["file"] for row in rows] == [str(tmp_path / "ironic.conf")]


def test_pipe_is_not_read(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "ironic.conf")
    code, (row,) = check(capsys, tmp_path)
    assert (code, row["kind"], row["verdict"]) == (0, "file", "ignored")


def test_file_of_options_without_their_form_is_refused_beside_the_others(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, a__conf="[api]\nport = 80\n", b__conf="[api]\nhunter2\n")
    code, rows = check(capsys, tmp_path)
    assert (code, [row["verdict"] for row in rows]) == (2, ["kept", "refused"])
    assert rows[1]["text"].startswith("line 2: ")
    assert "hunter2" not in json.dumps(rows)


@pytest.mark.parametrize(
    "text",
    [
        *("[deploy]\nhttp_root = /httpboot", "[pxe]\ntftp_root = /tftpboot"),
        *("[dnsmasq]\ndhcp_hostsdir = /d", "[dnsmasq]\ndhcp_optsdir = /d"),
        *("[DEFAULT]\nstate_path = /var/lib/ironic", "[database]\nconnection = sqlite:////x"),
    ],
)
def test_places_of_ironic_are_kept_with_a_warning(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    code, (row,) = check(capsys, fill(tmp_path, ironic__conf=text))
    assert (code, row["verdict"], row["loss"]) == (0, "kept", False)
    assert "of its own" in row["text"]


# -- rules -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        ("baremetal:node:get: role:admin", ("kept", 0), ""),
        ("baremetal:node:get: rule:is_admin or not role:x", ("kept", 0), ""),
        ('baremetal:node:get: "!"', ("kept", 0), ""),
        ('baremetal:node:get: ""', ("kept", 0), ""),
        ("baremetal:node:get: [[role:a], [role:b]]", ("kept", 0), ""),
        ("baremetal:step:execute:deploy.erase_devices: role:a", ("kept", 0), ""),
        ("show_password: role:admin", ("ignored", 0), "no rule shows secrets here"),
        ("baremetal:node:got: role:admin", ("ignored", 1), "there is no such rule here"),
        ("baremetal:node:get: role:a and (", ("refused", 2), "its check cannot be parsed"),
        ("baremetal:node:get: role:a or nonsense", ("refused", 2), "its check cannot be parsed"),
        ('baremetal:node:get: "nonsense!"', ("refused", 2), "its check cannot be parsed"),
        ("baremetal:node:get: rule:nowhere", ("refused", 2), "there is no rule nowhere"),
    ],
)
def test_rule_has_its_verdict(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    wanted: tuple[str, int],
    said: str,
) -> None:
    fill(tmp_path, policy__yaml=f"# first\n{text}\n")
    fill(tmp_path, ironic__conf="[api]\nauth_strategy = keystone\n")
    code, rows = check(capsys, tmp_path)
    rule = rows[-1]
    assert (rule["verdict"], code) == wanted
    assert rule["line"] == 2
    assert rule["text"].startswith(said)
    assert rule["text"] or not said


def test_rule_that_another_one_names_is_kept(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "mine: role:a\nbaremetal:node:get: rule:mine\nother: role:b\n"
    code, rows = check(capsys, fill(tmp_path, policy__yaml=text))
    assert verdicts(rows, "rule") == [
        ("mine", "kept", 1),
        ("baremetal:node:get", "kept", 2),
        ("other", "ignored", 3),
    ]
    assert code == 1


@pytest.mark.parametrize("strategy", ["http_basic", "noauth"])
def test_rules_without_keystone_are_not_asked(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], strategy: str
) -> None:
    fill(tmp_path, ironic__conf=f"[DEFAULT]\nauth_strategy = {strategy}\n")
    _, rows = check(capsys, fill(tmp_path, policy__yaml="baremetal:node:get: role:admin\n"))
    (row,) = (row for row in rows if row["kind"] == "file")
    assert row["text"].startswith(f"with {strategy} no rule is asked")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [b\nhunter2", "line "),
        ("- role:admin\n", "no object of names and checks"),
        ("1: role:admin\n", "no object of names and checks"),
        ("a: &a [[role:x]]\nb: *a\n", "has aliases"),
    ],
)
def test_file_without_rules_is_refused(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    code, (row,) = check(capsys, fill(tmp_path, policy__yaml=text))
    assert (code, row["kind"], row["verdict"]) == (2, "file", "refused")
    assert row["text"].startswith(said)
    assert "hunter2" not in row["text"]


# -- users -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "wanted", "said"),
    [
        (f"ann:{HASH}", ("ann", "kept"), ""),
        (f"ann:{HASH.replace('$2y', '$2b')}", ("ann", "kept"), ""),
        (f"ann:{HASH.replace('$2y', '$2a')}:more", ("ann", "kept"), ""),
        (f"ann:{HASH[:-1]}", ("ann", "refused"), "no bcrypt hash; use htpasswd -B"),
        *((f"ann:{one}", ("ann", "refused"), "no bcrypt hash") for one in OTHER_HASHES),
        ("ann:hunter2", ("ann", "refused"), "no bcrypt hash"),
        (f"ann{HASH}", ("******", "refused"), "the line has no colon"),
        (f"{HASH}:ann", ("******", "refused"), "no bcrypt hash"),
        (f"bob:{HASH}", ("bob", "refused"), "the user is in line 2, too"),
    ],
)
def test_user_has_a_verdict(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    line: str,
    wanted: tuple[str, str],
    said: str,
) -> None:
    text = f"# users\nbob:{HASH}\n\n{line}\n"
    code, rows = check(capsys, fill(tmp_path, htpasswd=text))
    assert verdicts(rows, "user") == [("bob", "kept", 2), (*wanted, 4)]
    assert rows[1]["text"].startswith(said)
    assert code == (2 if wanted[1] == "refused" else 0)
    shown = json.dumps(rows)
    assert not [one for one in (HASH, *OTHER_HASHES, "hunter2") if one in shown]
