"""Files of live fleets start both programs; their paths lead into the folder of the test."""

from __future__ import annotations

import http.client
import pathlib
import re
import socket
from collections.abc import Iterator

import pytest

from tests.support import service
from tests.support.service import Program, Service

FOLDER = pathlib.Path(__file__).parents[1] / "unit" / "configurations"
PLACES = ("auth", "certs", "etc", "run", "shared", "templates", "usr", "var")
USERS = "ann:$2b$04$4svVQMIGzC/oFUx9LzTw6uAFWpWfBLnkP18.I0J0m8Sk1KN5SsR66\n"
OTHER_PROJECTS = """
[ironic.hardware.types]
netdev = ironic_understack.netdev:Netdev
[oslo.messaging.notify.drivers]
prometheus_exporter = oslo_messaging.notify._impl_noop:NoOpDriver
"""
OF_UNDERSTACK = r",netdev\b|,resource-class|,update-baremetal-port|,port-bios-name"
"""Names in lists that only packages of understack have."""


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service for whose programs packages of other projects are installed."""
    with service.service(warm=False) as made:
        info = made.folder / "site" / "ironic_understack-1.0.dist-info"
        info.mkdir(parents=True)
        about = "Metadata-Version: 2.1\nName: ironic-understack\nVersion: 1.0\n"
        (info / "METADATA").write_text(about)
        (info / "entry_points.txt").write_text(OTHER_PROJECTS)
        monkeypatch.setenv("PYTHONPATH", str(info.parent))
        monkeypatch.setenv("XDG_CACHE_HOME", str(made.folder / "cache"))
        yield made


def write(found: Service, name: str, without: str = "$^") -> pathlib.Path:
    """Write a file of a fleet as the first of the service; return the second, for this machine."""
    text = re.sub(without, "", (FOLDER / f"{name}.conf").read_text())
    text = re.sub(r"(?m)^connection = .*\n", "", text)
    text = re.sub(rf"(?<![\w./])(?=/({'|'.join(PLACES)})/)", str(found.folder), text)
    text = re.sub(r"(?<=file://)(?=/)", str(found.folder), text)
    for path in re.findall(rf"{found.folder}/[\w./-]+", text):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    for path in re.findall(rf":({found.folder}/[\w./-]+\.efi)", text):
        pathlib.Path(path).write_text("loader")
    users = found.folder / "etc" / "ironic" / "htpasswd"
    users.parent.mkdir(parents=True, exist_ok=True)
    users.write_text(USERS)
    own = found.settings.read_text().replace("host = tester\n", "")
    own += f"[dnsmasq]\ndhcp_hostsdir = {found.folder}\ndhcp_optsdir = {found.folder}\n"
    if "tftp_root" not in text:
        own += f"[pxe]\ntftp_root = {found.folder}\n"
    second = found.folder / "second.conf"
    second.write_text(own)
    found.settings.write_text(text)
    return second


def ready(found: Service, path: pathlib.Path | None) -> bool:
    made = http.client.HTTPConnection(service.HOST, found.port, timeout=service.PATIENCE)
    if path is not None:
        made.sock = socket.socket(socket.AF_UNIX)
        made.sock.connect(str(path))
    made.request("GET", "/readyz")
    status = made.getresponse().status
    made.close()
    return status == 200


def run(found: Service, script: str, *words: str) -> Program:
    return found.start(script, "--config-file", *words)


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("ironic-image", "$^"),
        ("ironic-image-all", "$^"),
        ("bifrost", "$^"),
        ("understack", OF_UNDERSTACK),
    ],
)
def test_file_of_a_live_fleet_starts_both_programs(found: Service, name: str, without: str) -> None:
    second = str(write(found, name, without))
    upgrade = run(found, "ironic-lite-dbsync", second, "upgrade")
    assert upgrade.process.wait(service.PATIENCE) == 0
    programs = [run(found, f"ironic-lite-{part}", second) for part in ("conductor", "api")]
    given = re.search(r"(?m)^unix_socket = (\S+)", found.settings.read_text())
    path = pathlib.Path(given[1]) if given else None
    service.until(lambda: ready(found, path), "/readyz of the API")
    for program in programs:
        assert program.process.poll() is None
        said = program.said()
        assert len(re.findall(r"options? of Ironic ha(?:s|ve) no effect here", said)) == 1
        assert "Deprecated:" not in said
    assert [program.stop() for program in programs] == [0, 0]


def test_hardware_type_of_understack_stops_the_start_with_the_way_to_port_it(
    found: Service,
) -> None:
    second = str(write(found, "understack"))
    assert run(found, "ironic-lite-dbsync", second, "upgrade").process.wait(service.PATIENCE) == 0
    program = run(found, "ironic-lite-conductor", second)
    assert program.process.wait(service.PATIENCE) == 2
    assert (
        "netdev is a hardware type of ironic-understack, written for Ironic: see "
        '"Port a driver of Ironic" in docs/drivers.rst'
    ) in program.said()
