"""Recordings of a BMC: what is read, what is replaced, and that the rest still drives a node."""

from __future__ import annotations

import json
import lzma
import pathlib
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.drivers.redfish import inspect, management, power
from ironic_lite.drivers.redfish.bmc import info
from tests.emulators import bmc
from tests.support import bmc_tasks, service
from tools.record_bmc import anonymize, walk

USER, PASSWORD = "ironic-7", "geheim-4711"
ROOT = pathlib.Path(__file__).parents[3]
SERIALS = ("2M220100SL", "437XR1138R2", "SN000003")
UUIDS = ("38947555-7742-3448-3784-823347823834", "58893887-8974-2487-2389-841168418919")
CARDS = ("12:44:6a:3b:04:01", "12:44:6A:3B:04:02", "12446A3B0401")
PLACES = ("10.20.30.40", "fd00:10::40", "rack-17-bmc", "asset-0815", "jane.doe@corp.example")
PRIVATE = (*SERIALS, *UUIDS, *CARDS, *PLACES, USER, PASSWORD)


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    """A machine with private data in usual and in odd places."""
    with bmc.serve(make="dell", users={USER: PASSWORD}) as running:
        system, manager = running[running.system], running[running.places.manager]
        system.update(AssetTag="asset-0815", HostName="rack-17-bmc")
        system["Boot"]["BootOptions"] = ["PciRoot(0x0)/MAC(12446A3B0401,0x1)/IPv4(10.20.30.40)"]
        manager["Description"] = "BMC of rack-17-bmc at https://10.20.30.40, jane.doe@corp.example"
        manager["Oem"] = {"Ntp": ["fd00:10::40"], "Contact": "Jane Doe", "User": USER}
        yield running


def recorded(machine: bmc.Machine, **limits: int) -> walk.Walk:
    node = info.parse({**machine.driver_info, "redfish_auth_type": "basic"})
    bounds = {"requests": 1000, "seconds": 600, "size": 10**8} | limits
    made = walk.Walk(node, walk.Limits(**bounds))
    made.run()
    return made


def unpacked(raw: bytes) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(lzma.decompress(raw))
    return whole


def leaks(text: str, private: tuple[str, ...] = PRIVATE) -> list[str]:
    return [one for one in private if one.lower() in text.lower()]


# -- reading --------------------------------------------------------------------------------------


def test_a_walk_only_gets_and_reads_what_the_service_reads(machine: bmc.Machine) -> None:
    made = recorded(machine)
    assert {title.partition(" ")[0] for title in machine.log} == {"GET"}
    assert made.ended is None
    assert {walk.left_out(path) for path in set(machine.tree) - set(made.documents)} == {
        "metrics and sensors",
        "documents of vendors",
    }
    assert machine.sessions == {}


def test_a_session_is_ended(machine: bmc.Machine) -> None:
    node = info.parse({**machine.driver_info, "redfish_auth_type": "session"})
    walk.Walk(node, walk.Limits(1000, 600, 10**8)).run()
    assert (machine.logins, machine.sessions) == (1, {})


@pytest.mark.parametrize(
    ("limits", "said"),
    [({"requests": 7}, "7 requests"), ({"seconds": 0}, "0 s"), ({"size": 2**20}, "1 MiB")],
)
def test_a_limit_ends_the_walk(machine: bmc.Machine, limits: dict[str, int], said: str) -> None:
    machine[machine.system]["Description"] = "x" * 2**20
    made = recorded(machine, **limits)
    assert made.ended == said
    assert len(made.documents) < len(machine.tree)


def test_a_bmc_whose_links_do_not_end_is_left(machine: bmc.Machine) -> None:
    def endless(handler: bmc.Handler) -> None:
        here = handler.path.rstrip("/")
        handler.say(200, {"@odata.id": here, "Next": {"@odata.id": f"{here}/x"}})

    machine.tricks["GET /redfish/v1/TaskService*"] = endless
    assert recorded(machine, requests=200).ended == "200 requests"


def test_a_wrong_password_is_said_and_tried_once(machine: bmc.Machine) -> None:
    machine.users[USER] = "another"
    node = info.parse({**machine.driver_info, "redfish_password": PASSWORD})
    with pytest.raises(errors.BmcAccessDenied, match="refused the credentials of user ironic-7"):
        walk.Walk(node, walk.Limits(100, 60, 10**8)).run()


def test_unreadable_documents_are_counted(machine: bmc.Machine) -> None:
    machine.tricks[f"GET {machine.places.bios}"] = bmc.says(500)
    machine.tricks[f"GET {machine.places.volumes}"] = bmc.says(200, b"<html>")
    made = recorded(machine)
    assert made.left_out["answered 500"] == made.left_out["no usable answer"] == 1
    assert machine.places.bios not in made.documents


def test_a_bmc_that_stops_answering_is_left(machine: bmc.Machine) -> None:
    machine.tricks["GET /redfish/v1/?*"] = bmc.says(500)
    made = recorded(machine)
    assert made.ended is None or "without a usable answer" in made.ended
    assert list(made.documents) == ["/redfish/v1"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/redfish/v1/AccountService/Accounts/1", "users, sessions and keys"),
        # Its members are often named by the users.
        ("/redfish/v1/AccountService/Accounts", "users, sessions and keys"),
        ("/redfish/v1/Managers/iDRAC.Embedded.1/Attributes", "documents of vendors"),
        ("/redfish/v1/SessionService/Sessions/9", "users, sessions and keys"),
        ("/redfish/v1/Managers/1/LogServices/IEL/Entries", "log entries"),
        ("/redfish/v1/JsonSchemas/Bios", "schemas"),
        ("/redfish/v1/schemas/registries/BiosAttributeRegistry.1.0.0.json", None),
        ("/redfish/v1/Systems/1/Storage/1/Drives/0", None),
    ],
)
def test_documents_that_may_hold_secrets_or_serve_nothing_are_left_out(
    path: str, why: str | None
) -> None:
    assert walk.left_out(path) == why


# -- replacing ------------------------------------------------------------------------------------


def test_nothing_private_stands_in_a_recording(machine: bmc.Machine) -> None:
    made = recorded(machine)
    assert set(leaks(json.dumps(made.documents))) == {*PRIVATE} - {PASSWORD}
    whole = unpacked(walk.packed(made, [USER, PASSWORD]))
    assert leaks(json.dumps(whole)) == []
    made.documents[machine.system]["Model"] += f" {SERIALS[0]}"
    made.documents[machine.places.manager]["FirmwareVersion"] += f" of {USER}"
    again = unpacked(walk.packed(made, [USER, PASSWORD]))
    assert leaks(again["machine"] + again["firmware"]) == []
    assert whole["machine"] == "Dell Inc. PowerEdge R640"
    assert whole["firmware"] == "1.45.455b66-rev4"


def test_the_same_text_gets_the_same_replacement_everywhere(machine: bmc.Machine) -> None:
    documents = anonymize.anonymized(recorded(machine).documents, [USER])
    system, manager = documents[machine.system], documents[machine.places.manager]
    attributes = documents[machine.places.bios]["Attributes"]
    assert system["SerialNumber"] == attributes["SystemSerialNumber"] != SERIALS[0]
    assert re.fullmatch(r"\d[A-Z]\d{6}[A-Z]{2}", system["SerialNumber"])
    assert system["HostName"] in manager["Description"]
    cards = [one["MACAddress"] for path, one in documents.items() if "EthernetInterfaces/" in path]
    bare = re.findall(r"MAC\((\w+),", system["Boot"]["BootOptions"][0])
    assert bare == [cards[0].replace(":", "").upper()]
    assert all(int(card[:2], 16) & 3 == 2 for card in cards)


def test_facts_stay_as_they_are(machine: bmc.Machine) -> None:
    made = recorded(machine)
    manager, system = (
        made.documents[path] for path in (machine.places.manager, machine.places.system)
    )
    for owner in (manager, manager["Links"], manager["Actions"], system["Links"]):
        del owner["Oem"]
    documents = anonymize.anonymized(made.documents, [USER])
    assert set(documents) == set(made.documents)

    def names(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: names(inner) for name, inner in value.items()}
        return [names(inner) for inner in value] if isinstance(value, list) else None

    assert names(documents) == names(made.documents)
    firmware = machine.places.firmware
    assert documents[f"{firmware}/BIOS"] == made.documents[f"{firmware}/BIOS"]
    kept = ("Manufacturer", "Model", "PowerState", "Actions", "Links", "BiosVersion")
    for name in kept:
        assert documents[machine.system][name] == made.documents[machine.system][name]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FirmwareVersion", "6.10.30.1"),
        ("SubnetMask", "255.255.255.0"),
        ("Address", "0.0.0.0"),
        ("SerialNumber", "To be filled by O.E.M."),
        ("SerialNumber", "N/A"),
        ("AssetTag", ""),
        ("PasswordStatus", "Unlocked"),
        ("MACAddress", "00:00:00:00:00:00"),
        ("DateTime", "2026-01-31T12:30:45+01:00"),
        ("Description", "PCI 0000:3b:00.0 at 12:30:45"),
        ("PublicationUri", "https://redfish.dmtf.org/schemas"),
        ("UserName", "root"),
    ],
)
def test_texts_that_identify_nothing_stay(name: str, text: str) -> None:
    mask = anonymize.Mask()
    mask.learn({name: text})
    assert mask.hide({name: text}) == {name: text}


def hidden(document: dict[str, Any]) -> dict[str, Any]:
    [shown] = anonymize.anonymized({"/redfish/v1/Systems/1": document}).values()
    return shown


@pytest.mark.parametrize(
    "url",
    [
        "https://images.corp.example/boot/geheim-name.iso?X-Signature=geheim",
        "https://user:geheim@10.20.30.40:8443/geheim/a.iso",
        "nfs://10.20.30.40/geheim/a.iso",
        "cifs://files.corp.example/share/geheim dir/geheim.iso",
        "smb://[fd00:10::40]/geheim.img#geheim",
        "http://x/redfish/v1/Systems/1?token=geheim",
        "https://user:pa/geheim@files.corp.example/a",
    ],
)
@pytest.mark.parametrize("name", ["Image", "HttpBootUri", "Description", "FirmwareVersion"])
def test_host_path_and_query_of_a_url_are_replaced(name: str, url: str) -> None:
    shown = hidden({name: url, "Again": {name: url}})
    # Numbers with dots are versions there.
    addresses = () if name == "FirmwareVersion" else ("10.20.30.40", "fd00:10::40")
    assert leaks(shown[name], ("geheim", "corp", "files", "user", *addresses)) == []
    assert shown[name].partition("://")[0] == url.partition("://")[0]
    assert shown["Again"] == {name: shown[name]}


def test_names_of_images_are_replaced_without_a_url() -> None:
    uuid, random = UUIDS[0], "abcdefghijklmnopqrstu1"
    document = {"ImageName": "geheim.iso", "Messages": [f"Mounted boot-{uuid}-{random}.iso"]}
    assert leaks(json.dumps(hidden(document)), ("geheim", uuid, random)) == []


@pytest.mark.parametrize(
    "document",
    [
        {"Authentication": {"Password": {"Value": "geheim2"}}},
        {"Secrets": {"a": "geheim2", "Type": ["geheim2"]}},
        {"Settings": [{"Name": "BiosPassword", "Value": "geheim2"}]},
        {"Settings": [{"AttributeName": "AdminPassword", "CurrentValue": "geheim2"}]},
        {"Settings": [{"Name": "HostName", "Value": "geheim2"}]},
        {"Contacts": [{"Shown": "geheim2"}]},
    ],
)
def test_values_below_and_beside_a_private_name_are_replaced(document: dict[str, Any]) -> None:
    shown = json.dumps(hidden({**document, "Description": "It is geheim2."}))
    assert leaks(shown, ("geheim",)) == []


def test_links_and_actions_below_a_private_name_stay() -> None:
    action = {"target": "/redfish/v1/Systems/1/Bios/Actions/Bios.ChangePassword"}
    document = {
        "Actions": {"#Bios.ChangePassword": action},
        "Credentials": {"@odata.id": "/redfish/v1/Systems/1/Credentials"},
        "IPv4Addresses": [{"SubnetMask": "255.255.255.0", "AddressOrigin": "Static"}],
    }
    assert hidden(document) == document


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("Latitude", 48.1374),
        ("Longitude", -11),
        ("AssetTag", 4711),
        ("AdminPassword", 123456),
        ("AdminPassword", 7),
    ],
)
def test_private_numbers_are_replaced_by_other_numbers(name: str, number: float) -> None:
    shown = hidden({"Location": {name: number}, "Again": {name: number}, "Sum": number})
    assert type(shown["Location"][name]) is type(number)
    assert shown["Location"][name] != number
    assert shown["Again"] == shown["Location"]
    assert shown["Sum"] == number


def test_truth_below_a_private_name_stays() -> None:
    document = {"PasswordSet": True, "AssetTag": False, "Latitude": 0}
    assert hidden(document) == document


@pytest.mark.parametrize("text", ["default123", "admin", "root", "123", "0000", "!!", "auto7"])
def test_a_weak_secret_is_replaced(text: str) -> None:
    assert hidden({"AdminPassword": text})["AdminPassword"] != text


def test_a_secret_with_an_address_in_it_is_replaced_whole() -> None:
    assert leaks(json.dumps(hidden({"Password": "geheim2@10.20.30.40"})), ("geheim", "10.20")) == []


@pytest.mark.parametrize("state", [None, "", "Enabled", "Disabled", "Set", "NotSet", "Not Set"])
def test_the_state_of_a_secret_stays(state: str | None) -> None:
    assert hidden({"AdminPassword": state}) == {"AdminPassword": state}


@pytest.mark.parametrize(
    "name",
    [
        "UserLabel",
        "ServerOtherInfo",
        "CustomPostMessage",
        "UserLcdStr",
        "UserDefinedString1",
        "ComputerName",
        "SysLocation",
        "SysContact",
        "SysName",
        "DNSDomain",
        "DomainName",
        "LoginBanner",
        "LoginMessage",
        "SysDescription",
    ],
)
def test_free_texts_of_operators_are_replaced(name: str) -> None:
    assert leaks(json.dumps(hidden({"Attributes": {name: "Room of geheim"}})), ("geheim",)) == []


def test_of_oem_stays_only_what_the_drivers_read() -> None:
    disk = {"Oem": {"Dell": {"DellPhysicalDisk": {"RaidStatus": "Foreign"}}}}
    more = {"Oem": {"Dell": {"DellPhysicalDisk": {"RaidStatus": "Foreign", "A": "b"}, "C": 1}}}
    assert hidden({"Disk": more, "Links": {"Oem": {"Acme": {"A": "b"}}}}) == {
        "Disk": disk,
        "Links": {},
    }


@pytest.mark.parametrize("name", ["HostName", "UserName"])
def test_short_names_are_replaced_as_whole_words(name: str) -> None:
    document = {name: "q7", "Id": "of bq7", "Note": "host q7, user zed", "zed": "Zed's"}
    [shown] = anonymize.anonymized({"/redfish/v1": document}, ["zed"]).values()
    assert set(shown) == {name, "Id", "Note", "zed"}
    assert shown["Id"] == "of bq7"
    assert not {"q7", "zed"} & set(re.findall(r"\w+", f"{shown[name]} {shown['Note']}"))
    assert shown["zed"] != "Zed's"


_WORDS = st.text(string.ascii_letters + string.digits, min_size=6, max_size=20).filter(
    lambda text: re.search(r"\d", text) and re.search("[a-zA-Z]", text) and anonymize.telling(text)
)
_HEX = st.text("0123456789abcdef", min_size=12, max_size=12).filter(lambda text: len(set(text)) > 2)
_CARDS = _HEX.map(lambda text: ":".join(re.findall("..", text)))
_V4 = st.tuples(st.integers(1, 126), *[st.integers(0, 255)] * 2, st.integers(1, 254)).map(
    lambda four: ".".join(map(str, four))
)
_SPOILT = st.sampled_from(["{}", "of {} today", "/redfish/v1/Systems/{}", "({})", "x={};"])


@given(
    private=st.tuples(
        _WORDS,
        _CARDS,
        st.uuids(version=4).map(str),
        _V4,
        st.ip_addresses(v=6, network="2a00::/12").map(str),
    ),
    around=st.lists(_SPOILT, min_size=5, max_size=5),
    upper=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_no_serial_number_or_address_stands_in_the_output(
    private: tuple[str, ...], around: list[str], upper: bool
) -> None:
    serial, card, uuid, address, _ = private
    shown = [text.upper() if upper else text for text in private]
    document = {
        "SerialNumber": serial,
        "MACAddress": card,
        "UUID": uuid,
        "Attributes": {"Bare": f"NIC_{card.replace(':', '').upper()}", "Iscsi": address},
        "Notes": [form.format(text) for form, text in zip(around, shown, strict=True)],
    }
    path = f"/redfish/v1/Systems/{serial}"
    out = anonymize.anonymized({path: document})
    assert leaks(json.dumps(out), (*private, card.replace(":", ""))) == []
    [hidden] = out.values()
    assert [path] != list(out)
    assert list(out) == [f"/redfish/v1/Systems/{hidden['SerialNumber']}"]


# -- the command ----------------------------------------------------------------------------------


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.record_bmc", *words],
        cwd=ROOT,
        env=service.environment(**environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> str:
    file = tmp_path / "lite.conf"
    file.write_text("[redfish]\nallowed_networks = 127.0.0.0/8\n")
    return str(file)


def test_the_command_writes_a_recording_that_drives_a_node(
    machine: bmc.Machine, tmp_path: pathlib.Path, conf: str
) -> None:
    file = tmp_path / "r640.json.xz"
    done = command(
        *("--config-file", conf, "--user", USER, machine.url, str(file)),
        REDFISH_PASSWORD=PASSWORD,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "documents" in done.stdout
    assert leaks(done.stdout + json.dumps(unpacked(file.read_bytes()))) == []
    documents = unpacked(file.read_bytes())["documents"]
    with bmc.serve(make="dell") as replayed:
        replayed.tree = {**documents, replayed.places.sessions: {"Members": []}}
        task = bmc_tasks.task_of(replayed)
        inspect.RedfishInspect().inspect_hardware(task)
        assert (task.node.properties["cpus"], task.node.properties["memory_mb"]) == (32, 98304)
        assert len(task.added) == 2
        assert not {*task.added} & {*CARDS}
        management.RedfishManagement().set_boot_device(task, "pxe")
        power.RedfishPower().set_power_state(task, "power on")
        assert (replayed.booted, replayed.sent) == (["Pxe"], ["On"])


def test_the_password_may_be_in_a_file(
    machine: bmc.Machine, tmp_path: pathlib.Path, conf: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    given = ("--config-file", conf, "--user", USER, "--password-file", str(secret))
    done = command(*given, machine.url, str(tmp_path / "out.xz"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["http://127.0.0.1:9", "{}/out.xz"], 1, "connection refused"),
        (["http://127.0.0.1:9", "{}/nowhere/out.xz"], 2, "the folder"),
        (
            ["--user", "u", "--password-file", "{}/no", "http://127.0.0.1:9", "{}/o"],
            2,
            "password-file",
        ),
        (["ftp://127.0.0.1", "{}/out.xz"], 1, "Redfish needs http or https"),
    ],
)
def test_a_wrong_use_is_said_in_one_line(
    tmp_path: pathlib.Path, conf: str, words: list[str], status: int, said: str
) -> None:
    done = command("--config-file", conf, *(word.format(tmp_path) for word in words))
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert done.stderr.count("\n") == 1


def test_an_incomplete_recording_is_said(
    machine: bmc.Machine, tmp_path: pathlib.Path, conf: str
) -> None:
    given = ("--config-file", conf, "--user", USER, "--requests", "5")
    done = command(*given, machine.url, str(tmp_path / "out.xz"), REDFISH_PASSWORD=PASSWORD)
    assert done.returncode == 1
    assert "not complete: 5 requests" in done.stderr
