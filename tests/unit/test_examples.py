"""The examples in etc/ are taken by the programs that they are for."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from oslo_config import cfg

from ironic_lite.core import config

ROOT = pathlib.Path(__file__).parents[2]
UNITS = sorted((ROOT / "etc/systemd").glob("*.service")) + sorted(
    (ROOT / "etc/systemd").glob("*.socket")
)
EXAMPLES = [ROOT / "etc/ironic-lite/examples" / name for name in ("api.conf", "conductor.conf")]


def load(path: pathlib.Path) -> cfg.ConfigOpts:
    """Return a configuration as a program of ours reads it."""
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], project=config.PROJECT, default_config_files=[str(path)], default_config_dirs=[])
    return conf


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_a_configuration_is_taken(
    path: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    here, copy = tmp_path / "here.conf", tmp_path / path.name
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"^(?:ssl_\w+|http_basic_auth_user)_file = (.*)$", text, re.MULTILINE):
        text = text.replace(name, str(tmp_path / pathlib.Path(name).name))
        (tmp_path / pathlib.Path(name).name).touch()
    copy.write_text(text, encoding="utf-8")
    here.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n", encoding="utf-8")
    argv = ["--config-file", str(copy), "--config-file", str(here)]
    config.load("ironic-lite-conductor", argv, conf=cfg.ConfigOpts())
    assert "does not know" not in caplog.text


def test_api_and_conductors_agree_where_they_must() -> None:
    first, second = (load(path) for path in EXAMPLES)
    for name in ("heartbeat_interval", "heartbeat_timeout", "hash_ring_reset_interval"):
        assert first.conductor[name] == second.conductor[name]
    assert first.database.connection == second.database.connection
    texts = [path.read_text(encoding="utf-8") for path in EXAMPLES]
    for option in ("transport_url", "ca_file", "rpc_response_timeout"):
        one, other = (re.findall(f"^{option} = .*$", text, re.MULTILINE) for text in texts)
        assert one == other != []


def seconds(name: str) -> int:
    """Return TimeoutStopSec of a unit or a drop-in."""
    text = (ROOT / "etc/systemd" / name).read_text(encoding="utf-8")
    return int(re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[0])


def test_units_give_programs_the_time_that_they_give_themselves() -> None:
    conf = load(EXAMPLES[0]).conductor
    around = conf.hash_ring_reset_interval + 30  # until nobody calls; calls, locks, the end
    for name in ("ironic-lite", "ironic-lite-conductor", "ironic-lite-conductor@"):
        assert seconds(f"{name}.service") > conf.graceful_shutdown_timeout + around
    assert seconds("ironic-lite-drain.conf") > conf.drain_shutdown_timeout + around
    assert seconds("ironic-lite-api.service") > 30


def test_systemd_takes_all_units(tmp_path: pathlib.Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT TESTED: there is no systemd-analyze here")
    copies = []
    for unit in UNITS:
        text = re.sub(r"/opt/ironic-lite/bin/[a-z-]+", "/bin/true", unit.read_text("utf-8"))
        copies.append(tmp_path / unit.name.replace("@.", "@one."))
        copies[-1].write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", *map(str, copies)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_installing_creates_what_the_unit_of_one_machine_names(tmp_path: pathlib.Path) -> None:
    page = (ROOT / "docs/installing.rst").read_text(encoding="utf-8")
    unit = (ROOT / "etc/systemd/ironic-lite.service").read_text(encoding="utf-8")
    (start,) = re.findall(
        r"^ExecStart=(\S+)/bin/ironic-lite --config-file (\S+)$", unit, re.MULTILINE
    )
    venv, file = start
    assert f"    python3 -m venv {venv}\n" in page
    assert f"Write ``{file}``" in page
    state = re.findall(r"^StateDirectory=(.*)$", unit, re.MULTILINE)
    assert f"state_path = /var/lib/{state[0]}\n" in page
    settings = re.findall(r"code-block:: ini\n\n((?:   .*\n|\n)+)", page)
    text = "".join(settings).replace("   ", "").replace("/var/lib/ironic-lite", str(tmp_path))
    (tmp_path / "whole.conf").write_text(text, encoding="utf-8")
    conf = load(tmp_path / "whole.conf")
    assert (conf.api.auth_strategy, conf.enabled_hardware_types) == (
        "http_basic",
        ["redfish", "ipmi"],
    )


def test_user_and_folder_of_installing_are_created(tmp_path: pathlib.Path) -> None:
    programs = ("systemd-sysusers", "systemd-tmpfiles")
    if os.geteuid() != 0 or not all(map(shutil.which, programs)):
        pytest.skip("NOT TESTED: this needs root, systemd-sysusers and systemd-tmpfiles")
    page = (ROOT / "docs/installing.rst").read_text(encoding="utf-8")
    commands = re.findall(
        r"^    ((?:cp etc/systemd/sys|cp etc/systemd/tmp|systemd-).*)$", page, re.MULTILINE
    )
    assert len(commands) == 5
    for folder in ("etc", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
        (tmp_path / folder).mkdir(parents=True)
    for number, command in enumerate(commands):
        name, *words = command.split()
        if name == "cp":
            shutil.copy(ROOT / words[0], tmp_path / words[1].removeprefix("/"))
            continue
        if number == len(commands) - 1:
            (tmp_path / "etc/ironic-lite/ironic-lite.conf").touch(mode=0o644)
        subprocess.run([name, f"--root={tmp_path}", *words], check=True, capture_output=True)
    user = (tmp_path / "etc/passwd").read_text(encoding="utf-8").split(":")
    found = (tmp_path / "etc/ironic-lite/ironic-lite.conf").stat()
    assert user[0] == "ironic-lite"
    assert (found.st_mode & 0o777, found.st_uid) == (0o640, 0)
    assert (tmp_path / "etc/ironic-lite").stat().st_mode & 0o777 == 0o750


OPEN = re.compile(
    r"^ *(allow_unauthenticated_bind *= *true|.*guest:guest@"
    r"|.*sslmode=(require|prefer|allow|disable)"
    r"|.*(verify_ca|verify)\"?[ =:]+(false|none)\b|.*curl.* (-k|--insecure) )",
    re.IGNORECASE | re.MULTILINE,
)
"""Lines that no example has: an open API, a known password, an unverified certificate."""


def test_no_example_is_less_safe_than_production() -> None:
    paths = [*(ROOT / "etc").rglob("*.conf"), *(ROOT / "etc").rglob("*.cfg")]
    paths += [*(ROOT / "docs").glob("*.rst"), ROOT / "README.rst"]
    found = {
        f"{path.relative_to(ROOT)}: {match[0].strip()}"
        for path in paths
        for match in OPEN.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()
