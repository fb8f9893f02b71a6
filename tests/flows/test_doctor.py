"""Checks of a conductor: each is broken once by real servers and files, and gives advice."""

from __future__ import annotations

import dataclasses
import pathlib
import resource
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import requests

from ironic_lite import errors
from ironic_lite.checks import database, examiner, machine
from ironic_lite.conductor import fileserver
from ironic_lite.core import clock, config
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import examination, waiting
from ironic_lite.domain.examination import Status, Verdict
from ironic_lite.drivers import base
from ironic_lite.features.doctor import api, servers, work
from ironic_lite.features.erasures import rows as erasures_rows
from ironic_lite.images import boot_requests, published
from tests.emulators import images
from tests.support import certificates as made
from tests.support import fake_task, tftp_server
from tests.support.conductor_fixture import ConductorFixture

Set = Callable[..., None]
HTML = b"<!DOCTYPE html><title>Log in</title>"


@pytest.fixture
def options(tmp_path: pathlib.Path) -> Iterator[Set]:
    """A function that sets options, as ``group__option``; state_path is the test's folder."""
    changed: list[tuple[str, str | None]] = []

    def set_options(**values: Any) -> None:
        for name, value in values.items():
            group, option = name.split("__")
            place = (option, None if group == "DEFAULT" else group)
            config.CONF.set_override(option, value, place[1])
            changed.append(place)

    set_options(DEFAULT__state_path=str(tmp_path / "state"))
    yield set_options
    for option, group in changed:
        config.CONF.clear_override(option, group)


@pytest.fixture
def place(sqlite_database: Database, options: Set) -> work.ConductorSubject:
    """A conductor at rest with the default options."""
    return work.ConductorSubject(config.CONF, sqlite_database, busy=0, slots=100)


def one(verdicts: Iterator[Verdict]) -> Verdict:
    """Return the only verdict, whose advice is there if something is wrong."""
    (found,) = verdicts
    assert (found.status is Status.OK) == (not found.do)
    return found


def bad(verdicts: Iterator[Verdict]) -> list[tuple[Status, str]]:
    """Return status and text of the verdicts with another result than ok."""
    found = [verdict for verdict in verdicts if verdict.status is not Status.OK]
    assert all(verdict.do for verdict in found)
    return [(verdict.status, verdict.text) for verdict in found]


# -- the whole table --------------------------------------------------------------------------


def shown(findings: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [finding for finding in findings if finding["name"] == name]


def test_conductor_without_the_feature_says_that_it_is_off(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(features__enabled="")
    for call in (rig.endpoints.examine, lambda who: rig.endpoints.examine_node(who, node_uuid="")):
        with pytest.raises(
            errors.UnknownMethod, match="The feature doctor is off on conductor here"
        ):
            call(rig.who)


@pytest.mark.feature("doctor")
def test_conductor_returns_its_findings_with_advice(
    build: Callable[..., ConductorFixture], options: Set
) -> None:
    rig = build()
    found = rig.endpoints.examine(rig.who)
    assert {one["where"] for one in found} == {"conductor here"}
    assert {one["status"] for one in found} <= {"ok", "warning"}
    assert all(one["do"] for one in found if one["status"] != "ok")
    assert {one["name"] for one in found} <= {check.name for check in work.TABLE}
    assert shown(found, "workers")[0]["text"] == "0 of 20 workers are in use"


def test_every_check_of_a_conductor_has_a_name_of_its_own_and_advice() -> None:
    for table in (work.TABLE, api.TABLE):
        names = [check.name for check in table]
        assert len(set(names)) == len(names)
        assert all(check.do and check.about.endswith(".") for check in table)
        for check in table:
            assert set(check.needs) <= set(names)


# -- workers, database, clock -----------------------------------------------------------------


@pytest.mark.parametrize(("busy", "status"), [(89, "ok"), (90, "warning"), (100, "failed")])
def test_busy_workers_are_reported(place: work.ConductorSubject, busy: int, status: str) -> None:
    busy_place = dataclasses.replace(place, busy=busy)
    found = one(work.find_workers(busy_place))
    assert (str(found.status), found.text) == (status, f"{busy} of 100 workers are in use")


def test_write_leaves_no_row(place: work.ConductorSubject) -> None:
    assert one(database.find_write(place)).status is Status.OK
    rows = place.database.read(lambda conn: conn.exec_driver_sql("SELECT name FROM marks").all())
    assert [row[0] for row in rows if row[0].startswith("doctor")] == []


@pytest.mark.parametrize(
    ("seconds", "status", "text"),
    [
        (0, "ok", "0.00 s"),
        (5, "warning", "5.00 s behind the database's clock"),
        (-90, "failed", "90.00 s ahead of the database's clock"),
    ],
)
def test_wrong_clock_is_reported(seconds: float, status: str, text: str) -> None:
    found = database.check_clock(seconds)
    assert str(found.status) == status
    assert text in found.text
    assert bool(found.do) == bool(seconds)


# -- options, disk, programs ------------------------------------------------------------------


def test_missing_options_of_ramdisks_are_warnings(
    place: work.ConductorSubject, options: Set
) -> None:
    found = bad(machine.find_conductor_options(config.CONF))
    assert [status for status, _ in found] == [Status.WARNING, Status.WARNING]
    assert "[conductor]deploy_kernel" in found[0][1]
    options(
        conductor__deploy_kernel="http://192.0.2.1/kernel",
        conductor__bootloader="http://192.0.2.1/esp.img",
        agent__require_tls=False,
    )
    assert [text[:18] for _, text in bad(machine.find_conductor_options(config.CONF))] == [
        "[agent]require_tls"
    ]
    options(DEFAULT__enabled_boot_interfaces=["fake"])
    assert bad(machine.find_conductor_options(config.CONF)) == []


def test_folder_that_cannot_be_written_is_a_failed_check(
    place: work.ConductorSubject, options: Set, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "file").write_text("")
    options(pxe__tftp_root=str(tmp_path / "file"), pxe__tftp_server="192.0.2.1")
    ((status, text),) = bad(work.find_folders(place))
    assert status is Status.FAILED
    assert text == f"[pxe]tftp_root {tmp_path}/file: no file can be written there: not a directory"


def test_full_disk_is_a_failed_check(tmp_path: pathlib.Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        found = one(machine.find_folder("[DEFAULT]state_path", tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found.status is Status.FAILED
    assert "file too large" in found.text
    assert list(tmp_path.iterdir()) == []


def test_missing_programs_are_failed_if_nodes_need_them(
    options: Set, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    options(
        DEFAULT__enabled_hardware_types=["ipmi"],
        DEFAULT__enabled_console_interfaces=["ipmitool-socat"],
        DEFAULT__isolinux_bin=str(tmp_path / "isolinux.bin"),
    )
    found = bad(machine.find_programs(config.CONF, {"ipmi": 0}))
    assert [status for status, _ in found] == [Status.WARNING, Status.FAILED]
    options(deploy__default_boot_mode="bios")
    found = bad(machine.find_programs(config.CONF, {"ipmi": 3}))
    assert [status for status, _ in found] == [Status.FAILED] * 3
    assert found[0][1] == ("ipmitool is not installed; needed by 3 nodes of the hardware type ipmi")
    assert "isolinux_bin" in found[2][1]
    options(DEFAULT__enabled_hardware_types=["redfish"])
    assert "isolinux_bin" in one(machine.find_programs(config.CONF)).text


# -- certificates -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "status", "text"),
    [
        (-3, "failed", "has expired 3 days ago"),
        (9.5, "warning", "expires in"),
        (90, "ok", "is valid for 90 more days"),
    ],
)
def test_end_of_a_certificate_is_reported(
    tmp_path: pathlib.Path, days: float, status: str, text: str
) -> None:
    file = str(made.write(tmp_path, days)[0])
    found = one(machine.find_certificate("[deploy]http_ssl_cert_file", file, "Replace it."))
    assert str(found.status) == status
    assert text in found.text
    assert "CN=served" in found.text


def test_expired_authority_for_bmcs_is_a_failed_check(
    place: work.ConductorSubject, options: Set, tmp_path: pathlib.Path
) -> None:
    authorities = tmp_path / "authorities"
    authorities.mkdir()
    made.write(authorities, 300, "good")
    made.write(authorities, -1, "old")
    for key in authorities.glob("*.key"):
        key.unlink()
    options(redfish__ca_folder=str(authorities))
    options(deploy__http_ssl_cert_file=str(made.write(tmp_path, 5)[0]))
    served, old = bad(work.find_certificates(place))
    assert served[0] is Status.WARNING
    assert "[deploy]http_ssl_cert_file" in served[1]
    assert old[0] is Status.FAILED
    assert "old.pem" in old[1]


@pytest.mark.parametrize(
    ("names", "failing"),
    [
        (("one.example.org",), False),
        (("other", "*.example.org"), False),
        (("two.example.org",), True),
        (("192.0.2.1",), True),
    ],
)
def test_certificate_of_rpc_must_have_the_name_of_the_conductor(
    *,
    place: work.ConductorSubject,
    options: Set,
    tmp_path: pathlib.Path,
    names: tuple[str, ...],
    failing: bool,
) -> None:
    authority = made.Authority(tmp_path)
    cert, _ = authority.issue("machine", *names, days=90)
    options(DEFAULT__host="One.example.org:2", direct__cert_file=str(cert))
    found = [text for _, text in bad(work.find_certificates(place))]
    assert bool(found) == failing
    assert all(names[0] in text and "clients call One.example.org" in text for text in found)


def test_certificates_of_rpc_are_reported_before_their_end(
    place: work.ConductorSubject, options: Set, tmp_path: pathlib.Path
) -> None:
    authority = made.Authority(tmp_path)
    cert, _ = authority.issue("machine", "localhost", days=20)
    options(
        DEFAULT__host="localhost", direct__cert_file=str(cert), direct__ca_file=str(authority.file)
    )
    found = bad(work.find_certificates(place))
    assert [status for status, _ in found] == [Status.WARNING, Status.WARNING]
    assert [text.partition(" ")[0] for _, text in found] == ["[direct]cert_file", "[direct]ca_file"]


def test_file_without_a_certificate_is_a_failed_check(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for name, reason in (("empty.pem", "no certificate"), ("away.pem", "no such file")):
        found = one(machine.find_certificate("[api]ssl_cert_file", str(tmp_path / name), "Do."))
        assert found.status is Status.FAILED
        assert reason in found.text


# -- kernel, ramdisk, boot loader -------------------------------------------------------------


@pytest.fixture
def web(tmp_path: pathlib.Path) -> Iterator[images.Images]:
    folder = tmp_path / "web"
    folder.mkdir()
    with images.serve(folder) as served:
        yield served


def test_start_of_the_ramdisk_is_fetched(
    place: work.ConductorSubject, options: Set, web: images.Images, tmp_path: pathlib.Path
) -> None:
    web.put("kernel", b"k" * 2 * 1024 * 1024)
    (tmp_path / "initrd").write_bytes(b"r" * 1024)
    options(
        conductor__deploy_kernel=f"{web.url}/kernel?sig=s3cret",
        conductor__deploy_ramdisk=f"file://{tmp_path}/initrd",
    )
    kernel, ramdisk = work.find_ramdisk(place)
    assert (kernel.status, ramdisk.status) == (Status.OK, Status.OK)
    assert kernel.text.startswith(f"[conductor]deploy_kernel {web.url}/kernel: 2.0 MiB, changed on")
    assert "s3cret" not in kernel.text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "the server answers with status 404"),
        ("empty", "it is empty"),
        ("page", "it is a web page"),
    ],
)
def test_kernel_that_is_no_kernel_is_a_failed_check(
    place: work.ConductorSubject, options: Set, web: images.Images, name: str, reason: str
) -> None:
    web.put("empty", b"")
    web.put("page", HTML)
    options(conductor__deploy_kernel=f"{web.url}/{name}")
    found = one(work.find_ramdisk(place))
    assert found.status is Status.FAILED
    assert reason in found.text
    assert f"[conductor]deploy_kernel {web.url}/{name}" in found.text


def test_closed_port_of_an_image_server_is_a_failed_check(
    place: work.ConductorSubject, options: Set
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/esp.img"
        options(conductor__bootloader=url, conductor__rescue_kernel=url)
        for find in (work.find_bootloader, work.find_rescue):
            found = one(find(place))
            assert found.status is Status.FAILED
            assert "connection refused" in found.text


def test_untrusted_image_server_is_a_failed_check(
    place: work.ConductorSubject, options: Set, tmp_path: pathlib.Path
) -> None:
    certificate, key = made.write(tmp_path, 100)
    with images.serve(tmp_path, (certificate, key)) as served:
        options(conductor__deploy_kernel=f"{served.url}/served.pem")
        found = one(work.find_ramdisk(place))
        assert found.status is Status.FAILED
        assert "webserver_verify_ca" in found.text


def test_secret_of_an_address_is_in_no_text(
    place: work.ConductorSubject, options: Set, web: images.Images
) -> None:
    address = web.url.replace("://", "://ann:s3cret@")
    options(
        conductor__deploy_kernel=f"{address}/missing?sig=s3cret",
        service_catalog__endpoint_override=address,
        deploy__http_url=address,
    )
    rows = examiner.lines("here", work.TABLE, place)
    found = examiner.Examiner().examine(rows, 60)
    assert {one.name for one in found if one.status == "failed"} >= {"ramdisk", "callback"}
    assert not [one for one in found if "s3cret" in f"{one.text}{one.do}"]


def test_node_names_only_files_of_the_allowed_folders(options: Set, tmp_path: pathlib.Path) -> None:
    (tmp_path / "kernel").write_bytes(b"k")
    given = {"driver_info/deploy_kernel": f"file://{tmp_path}/kernel"}
    found = one(servers.find_files(config.CONF, given))
    assert found.status is Status.FAILED
    assert "file_url_allowed_paths" in found.text
    options(conductor__file_url_allowed_paths=[str(tmp_path)])
    assert one(servers.find_files(config.CONF, given)).status is Status.OK


def test_local_file_that_is_missing_is_a_failed_check(
    place: work.ConductorSubject, options: Set, tmp_path: pathlib.Path
) -> None:
    options(conductor__deploy_kernel=f"file://{tmp_path}/kernel")
    found = one(work.find_ramdisk(place))
    assert found.status is Status.FAILED
    assert "no such file or directory" in found.text


# -- file server, call-back URL, TFTP -----------------------------------------------------------


def test_missing_file_server_is_a_warning(place: work.ConductorSubject, options: Set) -> None:
    ((status, text),) = bad(servers.find_file_server(config.CONF))
    assert status is Status.WARNING
    assert "[deploy]http_url" in text
    options(DEFAULT__enabled_boot_interfaces=["fake"])
    assert list(servers.find_file_server(config.CONF)) == []


def test_file_server_of_another_folder_is_a_failed_check(
    place: work.ConductorSubject, options: Set, web: images.Images, tmp_path: pathlib.Path
) -> None:
    options(deploy__http_root=str(tmp_path / "other"), deploy__http_url=web.url)
    found = one(servers.find_file_server(config.CONF))
    assert found.status is Status.FAILED
    assert "a file written there gives 404" in found.text
    # The right folder works; an address of loopback is no use to other machines.
    options(deploy__http_root=str(web.folder))
    found = one(servers.find_file_server(config.CONF))
    assert (found.status, "is loopback" in found.text) == (Status.WARNING, True)
    assert list(web.folder.iterdir()) == []


def test_file_server_that_is_down_is_a_failed_check(
    place: work.ConductorSubject, options: Set, tmp_path: pathlib.Path
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        options(deploy__http_url=f"http://127.0.0.1:{unused.getsockname()[1]}")
        found = one(servers.find_file_server(config.CONF))
    assert found.status is Status.FAILED
    assert "connection refused" in found.text


def test_callback_url_must_be_this_api(
    place: work.ConductorSubject, options: Set, web: images.Images
) -> None:
    ((status, text),) = bad(servers.find_callback(config.CONF))
    assert status is Status.WARNING
    assert "[service_catalog]endpoint_override is not set" in text
    options(service_catalog__endpoint_override=web.url)
    found = dict(bad(servers.find_callback(config.CONF)))
    assert "is loopback: no ramdisk reaches it" in found[Status.WARNING]
    assert "GET /v1 gives 404" in found[Status.FAILED]
    web.put("v1", b'{"id": "v1"}')
    assert [status for status, _ in bad(servers.find_callback(config.CONF))] == [Status.WARNING]


def test_callback_url_of_media_must_be_this_api_too(
    place: work.ConductorSubject, options: Set, web: images.Images
) -> None:
    web.put("v1", b'{"id": "v1"}')
    options(service_catalog__endpoint_override=web.url)
    options(deploy__external_callback_url=f"{web.url}/elsewhere")
    found = [text for status, text in bad(servers.find_callback(config.CONF))]
    assert sum("is loopback: no ramdisk reaches it" in text for text in found) == 2
    assert any(
        text.startswith("[deploy]external_callback_url") and "GET /v1 gives 404" in text
        for text in found
    )


def test_tftp_server_is_asked_for_the_loaders(
    place: work.ConductorSubject, options: Set, tmp_path: pathlib.Path
) -> None:
    ((status, text),) = bad(servers.find_tftp(config.CONF))
    assert (status, "[pxe]tftp_server" in text) == (Status.WARNING, True)
    options(pxe__tftp_server="127.0.0.1")
    (tmp_path / "snponly.efi").write_bytes(b"x" * 700)
    with tftp_server.serve(tmp_path) as port:
        found = list(servers.find_tftp(config.CONF, port))
    assert [verdict.status for verdict in found] == [Status.OK, Status.FAILED]
    assert found[0].text == (
        "[pxe]uefi_ipxe_bootfile_name snponly.efi from 127.0.0.1: 512 bytes in the first block"
    )
    assert "the server refuses (error 1): File not found" in found[1].text
    assert "ironic-lite-netboot" in found[1].do


def test_implied_tftp_server_is_no_fault(options: Set, tmp_path: pathlib.Path) -> None:
    options(deploy__http_url="http://127.0.0.1:8080", DEFAULT__enabled_boot_interfaces=["ipxe"])
    with tftp_server.serve(tmp_path) as port:
        found = one(servers.find_tftp(config.CONF, port))
    assert found.status is Status.WARNING
    assert "enabled_boot_interfaces" in found.do


def test_silent_tftp_server_is_given_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(servers.TftpFailed, match=r"no answer from 127\.0\.0\.1 within 4 s"):
            servers.first_tftp_block("127.0.0.1", "x", silent.getsockname()[1])


# -- how far a machine has come -----------------------------------------------------------------


CARD = "aa:bb:cc:00:11:22"


def heard(task: fake_task.FakeTask) -> list[str]:
    """Return what is known about the boot of a machine."""
    subject: Any = work.NodeSubject(config.CONF, task)
    found = list(work.find_agent(subject))
    assert {verdict.status for verdict in found} == {Status.OK}
    return [verdict.text for verdict in found]


def test_last_boot_file_lookup_and_heartbeat_are_told(options: Set, tmp_path: pathlib.Path) -> None:
    port = base.Port({"address": CARD, "pxe_enabled": True})
    task = fake_task.FakeTask(fake_task.node(boot_interface="ipxe"), ports=[port])
    assert heard(task) == [
        "no agent has sent a heartbeat since the last boot; DHCP is not examined"
    ]
    options(deploy__http_root=str(tmp_path / "http"))
    script = f"pxelinux.cfg/{CARD.replace(':', '-')}"
    published.write(published.root() / script, "#!ipxe")
    server = fileserver.FileServer("127.0.0.1", 0, 10)
    server.start()
    try:
        url = f"http://127.0.0.1:{server.port}"
        assert requests.get(f"{url}/{script}", timeout=60).text == "#!ipxe"
        # A file that is not there has not been fetched.
        assert requests.get(f"{url}/{task.node.uuid}/kernel", timeout=60).status_code == 404
    finally:
        server.stop()
    assert heard(task)[0].startswith("the machine last fetched a boot file ")
    task.node.driver_internal_info = waiting.with_new_token(task.node.as_dict())[1]
    task.agent = base.Agent("https://192.0.2.9", "t0ken", None, None, clock.now())
    assert [text.split(" at ")[0].split(" 0 s")[0] for text in heard(task)] == [
        "the machine last fetched a boot file",
        "the machine last looked up its node",
        "the agent sent its last heartbeat",
    ]


def test_authority_of_an_agent_in_driver_info_is_a_warning() -> None:
    node = fake_task.node(boot_interface="ipxe", driver_info={"agent_verify_ca": "/etc/ca.pem"})
    subject: Any = work.NodeSubject(config.CONF, fake_task.FakeTask(node))
    ((status, text),) = bad(work.find_agent(subject))
    assert status is Status.WARNING
    assert text.startswith("driver_info/agent_verify_ca has no effect")


def test_memory_of_boot_requests_is_bounded() -> None:
    seen = boot_requests.BootRequests(most=2)
    nodes = [str(uuid.UUID(int=number)) for number in range(3)]
    for node in nodes:
        seen.note_file(node)
    known = [seen.seconds_since(node, ()) is not None for node in nodes]
    assert known == [False, True, True]


# -- a node -----------------------------------------------------------------------------------


@pytest.mark.feature("doctor")
def test_node_is_examined_while_it_is_locked(rig: ConductorFixture) -> None:
    node = rig.node(name="r1")
    rig.edit(node, boot_mode="uefi")
    with rig.tasks.lock(rig.who, node):
        found = rig.endpoints.examine_node(rig.who, node_uuid=node)
    assert {one["where"] for one in found} == {"node r1"}
    assert {one["name"]: one["status"] for one in found} == {
        "settings": "ok",
        "power": "ok",
        "ports": "ok",
    }


@pytest.mark.parametrize(
    ("boot", "names"),
    [("fake", set()), ("redfish-virtual-media", {"boot_mode", "virtual_media"})],
)
def test_only_checks_that_a_node_needs_are_reported_as_not_made(boot: str, names: set[str]) -> None:
    def fail(_subject: work.NodeSubject) -> Iterator[Verdict]:
        yield examination.failed("The fuse has blown.", "Replace it.")

    task: Any = fake_task.FakeTask(fake_task.node(boot_interface=boot))
    subject = work.NodeSubject(config.CONF, task)
    checks = [
        dataclasses.replace(check, find=fail) if check.name == "power" else check
        for check in work.NODE_TABLE
        if check.name in ("power", "boot_mode", "virtual_media")
    ]
    found = examiner.Examiner().examine(examiner.lines("node n", checks, subject), 60)
    assert {one.name for one in found} - {"power"} == names


@pytest.mark.feature("doctor")
def test_fault_of_the_power_read_is_a_failed_check(rig: ConductorFixture) -> None:
    node = rig.node(fake_fail_power="The fuse has blown.")
    found = rig.endpoints.examine_node(rig.who, node_uuid=node)
    (power,) = shown(found, "power")
    assert power["status"] == "failed"
    assert power["do"]


@pytest.mark.feature("doctor")
def test_setting_that_a_driver_refuses_is_a_failed_check(rig: ConductorFixture) -> None:
    node = rig.node(fake_fail_power=[7])
    found = rig.endpoints.examine_node(rig.who, node_uuid=node)
    settings = next(one for one in shown(found, "settings") if one["status"] == "failed")
    assert "power interface: driver_info/fake_fail_power" in settings["text"]
    assert settings["do"]


@pytest.mark.parametrize(
    ("boot", "status"),
    [
        *((name, Status.FAILED) for name in ("ipxe", "pxe", "http-ipxe", "http")),
        ("redfish-virtual-media", Status.WARNING),
        ("idrac-redfish-virtual-media", Status.WARNING),
        ("redfish-https", Status.WARNING),
    ],
)
def test_node_without_a_port_to_boot_from_is_reported(boot: str, status: Status) -> None:
    task: Any = fake_task.FakeTask(fake_task.node(boot_interface=boot))
    assert not task.ports
    found = one(work.find_ports(work.NodeSubject(config.CONF, task)))
    assert found.status is status


# -- the key of erasure records ---------------------------------------------------------------


def test_records_without_a_key_are_a_warning(
    place: work.ConductorSubject, sqlite_database: Database
) -> None:
    row = {
        **{"uuid": str(uuid.uuid4()), "node_uuid": str(uuid.uuid4()), "at": clock.now()},
        **{"result": "complete", "level": "clear", "serials": [], "statement": "{}"},
        **{"sha256": "0" * 64},
    }
    sqlite_database.write(lambda conn: erasures_rows.add(conn, row))
    found = one(work.find_evidence_key(place))
    assert found.status is Status.WARNING
    assert "evidence_key_file" in found.do


def test_key_of_erasure_records_is_judged(
    place: work.ConductorSubject, options: Set, tmp_path: pathlib.Path
) -> None:
    assert list(work.find_evidence_key(place)) == []
    path = tmp_path / "key.pem"
    options(conductor__evidence_key_file=str(path))
    assert one(work.find_evidence_key(place)).status is Status.FAILED
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    for mode, status in (
        (0o600, Status.OK),
        (0o640, Status.WARNING),
        (0o644, Status.FAILED),
    ):
        path.chmod(mode)
        assert one(work.find_evidence_key(place)).status is status


def test_key_in_the_file_that_does_not_sign_is_reported(
    place: work.ConductorSubject, options: Set, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "key.pem"
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    path.chmod(0o600)
    options(conductor__evidence_key_file=str(path))
    found = one(work.find_evidence_key(dataclasses.replace(place, key="k-other")))
    assert found.status is Status.FAILED
    assert "k-other signs" in found.text
