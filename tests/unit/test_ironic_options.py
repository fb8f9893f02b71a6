"""Each option of Ironic 39 has a verdict; files of live fleets are judged option by option.

``configurations`` has the names and defaults of all options of Ironic 39.0, and files that
ironic-image, bifrost and understack make.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.cmd import status
from ironic_lite.core import config, options
from ironic_lite.core.options import OptionVerdict as Verdict
from ironic_lite.core.options import ironic
from ironic_lite.features.move_in.defaults import DEFAULTS
from tests.support import driver_packages

pytestmark = pytest.mark.feature("move_in")
FOLDER = pathlib.Path(__file__).parent / "configurations"
OPTION = re.compile(r"\[(?P<group>\w+)\](?P<name>\w+)=(?P<default>.*)")
OF_IRONIC = {
    (found["group"], found["name"]): found["default"]
    for line in (FOLDER / "ironic-39.options").read_text().splitlines()
    if (found := OPTION.fullmatch(line))
}
Shown = tuple[int, list[dict[str, Any]]]


def judged(path: pathlib.Path) -> list[config.Judgement]:
    return config.judge_files([path])[1]


def check(capsys: pytest.CaptureFixture[str], *argv: object) -> Shown:
    """Run the command; return its exit status and its rows."""
    code = status.check_ironic_conf([*map(str, argv), "--json"])
    return code, json.loads(capsys.readouterr().out)


def write(folder: pathlib.Path, text: str) -> pathlib.Path:
    path = folder / "ironic.conf"
    path.write_text(text)
    return path


# -- the table -------------------------------------------------------------------------------


def test_each_option_of_ironic_is_ours_or_has_one_row() -> None:
    assert len(OF_IRONIC) == 840
    ours = {key for key in OF_IRONIC if config.option_named(key)}
    library = {("DEFAULT", opt.dest) for opt in options.LIBRARY}
    rows = {key for key in OF_IRONIC if options.row_of(*key)}
    assert not OF_IRONIC.keys() - ours - library - rows
    assert not rows & ours


def test_no_row_is_of_an_option_of_ours() -> None:
    assert not [key for key in ironic.OPTIONS if config.option_named(key)]
    assert not ironic.GROUPS.keys() & options.GROUPS.keys()


def test_defaults_of_ironic_stop_no_start() -> None:
    for key, default in OF_IRONIC.items():
        row = options.row_of(*key)
        if row is not None:
            assert row.judge(default)[0] is not Verdict.REFUSED, key


def test_each_default_that_differs_is_in_the_table() -> None:
    """Defaults that stand for the same, or that Ironic computes, are not."""
    same = {"enabled_management_interfaces", "enabled_power_interfaces", "ldlinux_c32", "host"}
    same |= {"default_storage_interface", "enable_ssl_api"}
    same |= {"cpu_capabilities", "known_accelerators"}
    differing = set()
    for (group, name), theirs in OF_IRONIC.items():
        found = config.option_named((group, name))
        ours = found and found[1].default
        listed = ours if isinstance(ours, list) else [] if ours in (None, {}) else [ours]
        shown = ",".join(map(str, listed))
        if found and shown.lower() != theirs.lower():
            differing.add((group, name))
    assert {key for key in differing if key[1] not in same} == DEFAULTS.keys()


# -- verdicts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "verdict", "loss"),
    [
        ("[api]\nport = 80", Verdict.KEPT, False),
        ("[api]\nhost_ip = 127.0.0.1", Verdict.RENAMED, False),
        ("[DEFAULT]\nrpc_transport = none", Verdict.FIXED, False),
        ("[DEFAULT]\nrpc_transport = json-rpc", Verdict.REFUSED, True),
        ("[DEFAULT]\nuse_stderr = true", Verdict.KEPT, False),
        ("[oslo_messaging_rabbit]\nssl = true", Verdict.KEPT, False),
        ("[pxe]\nimages_path = /x", Verdict.IGNORED, False),
        ("[pxe]\nipxe_config_template = /x", Verdict.IGNORED, True),
        ("[metrics]\nbackend = collector", Verdict.IGNORED, False),
        ("[metrics]\nbackend = statsd", Verdict.IGNORED, True),
        ("[nova]\nsend_power_notifications = false", Verdict.IGNORED, False),
        ("[nova]\nauth_url = https://nova", Verdict.IGNORED, True),
        ("[swift]\nauth_url = https://swift", Verdict.IGNORED, False),
        ("[audit]\nenabled = false", Verdict.FIXED, False),
        ("[audit]\nenabled = true", Verdict.REFUSED, True),
        ("[api]\nprot = 80", Verdict.REFUSED, True),
        ("[service_catalog]\nendpoint_overide = http://h", Verdict.REFUSED, True),
        ("[service_catalog]\nusername = u", Verdict.IGNORED, False),
        ("[conducter]\nworkers_pool_size = 8", Verdict.REFUSED, True),
        ("[of_a_plugin]\nx = y", Verdict.IGNORED, False),
        ("[api]\nport = many", Verdict.REFUSED, True),
        ("[deploy]\nhttp_url = http://$my_ip/", Verdict.REFUSED, True),
        ("[DEFAULT]\nenabled_hardware_types = redfish,ilo", Verdict.KEPT, False),
        ("[DEFAULT]\nenabled_hardware_types = ilo,snmp", Verdict.REFUSED, True),
        ("[DEFAULT]\nenabled_hardware_types = redfish,rack", Verdict.REFUSED, True),
        ("[DEFAULT]\ndefault_storage_interface = cinder", Verdict.REFUSED, True),
        ("[keystone_authtoken]\nauth_url = https://k", Verdict.REFUSED, True),
    ],
)
def test_option_has_its_verdict(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    verdict: Verdict,
    loss: bool,
) -> None:
    code, (row,) = check(capsys, write(tmp_path, f"# first\n{text}\n"))
    assert (row["verdict"], row["loss"], row["line"]) == (verdict, loss, 3)
    assert code == (2 if verdict is Verdict.REFUSED else int(loss))
    assert row["text"] or verdict in (Verdict.KEPT, Verdict.FIXED)


def test_command_masks_secrets_and_names_the_file(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(
        tmp_path,
        "[database]\nconnection = mysql+pymysql://ironic:hush@h/i\n"
        "[json_rpc]\npassword = hush\n[DEFAULT]\ntransport_url = rabbit://u:hush@h,v:hush@i/\n"
        "[glance]\nswift_temp_url_key = hush\n",
    )
    assert status.check_ironic_conf([str(path), "--all"]) == 0
    out = capsys.readouterr().out
    assert "hush" not in out
    assert f"kept     [database]connection = mysql+pymysql://ironic:******@h/i ({path}:2)" in out
    assert f"ignored  [json_rpc]password = ****** ({path}:4): use transport_url = direct://" in out


@pytest.mark.parametrize("name", ["enabled_boot_interfaces", "default_raid_interface"])
def test_command_names_a_reference_to_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text = f"[DEFAULT]\n{name} = $nope\n[inspector]\nhooks = $nope\n"
    code, rows = check(capsys, write(tmp_path, text))
    assert (code, [row["verdict"] for row in rows]) == (2, [Verdict.REFUSED] * 2)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[api]\nenable_ssl_api = true\n", ["enable_ssl_api"]),
        (
            "[api]\nunix_socket = /run/a\nenable_ssl_api = true\n",
            ["unix_socket", "enable_ssl_api"],
        ),
        ("[api]\nhost_ip = ::\n", ["host_ip"]),
        ("[auto_discovery]\nenabled = true\n", ["enabled"]),
        ("[deploy]\nimage_server_auth_strategy = http_basic\n", ["image_server_user"]),
    ],
)
def test_command_refuses_options_that_contradict_each_other(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, names: list[str]
) -> None:
    code, rows = check(capsys, write(tmp_path, text))
    assert code == 2
    assert [row["name"] for row in rows if row["verdict"] == Verdict.REFUSED] == names


def test_command_shows_kept_options_only_with_all(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "[api]\nport = 80\n")
    assert status.check_ironic_conf([str(path)]) == 0
    assert capsys.readouterr().out.strip() == ""
    assert status.check_ironic_conf([str(path), "--all"]) == 0
    assert capsys.readouterr().out == f"kept     [api]port = 80 ({path}:2)\n"


def test_command_shows_defaults_that_the_files_leave_out(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "[api]\nhost_ip = ::1\n")
    code, rows = check(capsys, path, "--defaults")
    defaults = {(row["group"], row["name"]): row for row in rows if row["verdict"] == "default"}
    assert code == 0
    assert defaults.keys() == DEFAULTS.keys() - {("api", "host_ip")}
    row = defaults["DEFAULT", "auth_strategy"]
    assert (row["value"], row["text"]) == (
        "keystone",
        "the default of Ironic; here it is noauth",
    )


def test_command_reads_a_folder_and_later_files_come_first(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.conf").write_text("[api]\nport = many\n")
    (tmp_path / "ironic.conf.d").mkdir()
    (tmp_path / "ironic.conf.d/b.conf").write_text("[api]\nport = 80\n")
    code, rows = check(capsys, tmp_path)
    assert code == 0
    assert [(row["name"], row["value"]) for row in rows] == [("port", "many"), ("port", "80")]


def test_environment_and_own_files_have_no_part_in_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_API__PORT", "many")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ironic-lite.conf").write_text("[audit]\nenabled = true\n")
    assert check(capsys, write(tmp_path, "[api]\nport = 80\n"))[0] == 0


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("missing", "cannot read {path}: No such file or directory"),
        ("large", "{path}: larger than 1048576 bytes"),
        ("binary", "cannot read {path}: 'utf-8' codec"),
        ("empty folder", "{path}: has no files"),
    ],
)
def test_file_that_cannot_be_read_is_one_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], what: str, said: str
) -> None:
    path = tmp_path / "x"
    if what == "large":
        path.write_bytes(b"#" * (1024 * 1024 + 1))
    elif what == "binary":
        path.write_bytes(b"[api]\nport = \xff\n")
    elif what == "empty folder":
        path.mkdir()
    with pytest.raises(SystemExit) as ended:
        status.main(["check-ironic-conf", str(path)])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert said.format(path=path) in err


# -- names of drivers ------------------------------------------------------------------------


def test_hardware_type_of_another_package_for_ironic_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = (
        "[ironic.hardware.types]\nnetdev = outside_driver:Netdev\n"
        "[ironic.hardware.interfaces.inspect]\nrack = outside_driver:Rack\n"
    )
    driver_packages.install(monkeypatch, tmp_path / "site", {}, points)
    text = "[DEFAULT]\nenabled_hardware_types = redfish,netdev\nenabled_inspect_interfaces = rack\n"
    code, rows = check(capsys, write(tmp_path, text))
    assert code == 2
    ported = 'written for Ironic: see "Port a driver of Ironic" in docs/drivers.rst'
    package = rows[0]["text"].split()[6].rstrip(",")
    assert package.startswith("outside")
    assert [row["text"] for row in rows] == [
        f"netdev is a hardware type of {package}, {ported}",
        f"rack is an inspect interface of {package}, {ported}",
    ]


# -- files of live fleets --------------------------------------------------------------------


def names(rows: Sequence[dict[str, Any]], verdict: Verdict, *, loss: bool) -> set[str]:
    found = [row for row in rows if row["verdict"] == verdict and row["loss"] == loss]
    return {f"[{row['group']}]{row['name']}" for row in found}


@pytest.mark.parametrize("name", ["ironic-image", "ironic-image-all", "bifrost", "understack"])
def test_each_option_of_a_live_file_is_judged_once(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = FOLDER / f"{name}.conf"
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    _, rows = check(capsys, path)
    assert sorted((row["group"], row["name"]) for row in rows) == sorted(
        (group, name) for group, found in sections.items() for name in found
    )
    assert {row["line"] for row in rows} >= {2}
    misspelt = [row for row in rows if "did you mean" in row["text"]]
    assert not misspelt


@pytest.mark.parametrize(
    ("name", "refused", "wanted"),
    [
        ("ironic-image", set(), 0),
        ("ironic-image-all", set(), 1),
        ("bifrost", set(), 0),
        (
            "understack",
            {
                "[DEFAULT]enabled_hardware_types",
                "[inspector]hooks",
                "[redfish]inspection_hooks",
            },
            2,
        ),
    ],
)
def test_live_file_is_refused_for_these_options(
    capsys: pytest.CaptureFixture[str], name: str, refused: set[str], wanted: int
) -> None:
    code, rows = check(capsys, FOLDER / f"{name}.conf")
    assert names(rows, Verdict.REFUSED, loss=True) == refused
    assert code == wanted
