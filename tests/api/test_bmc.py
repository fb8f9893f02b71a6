"""Boot mode, secure boot, NMI, lamps and virtual media: what goes through, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import states
from ironic_lite.domain.states import State
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

IMAGE = "https://192.0.2.1/tools.iso"

# -- what is handed on -----------------------------------------------------------------------

ORDERS: tuple[tuple[str, str, str, Any, int, str, dict[str, Any]], ...] = (
    # id, method, path below the node, body, status, call, its arguments
    (
        *("boot-mode", "PUT", "states/boot_mode", {"target": "uefi"}, 202),
        *("change_node_boot_mode", {"mode": "uefi"}),
    ),
    (
        *("secure-boot", "PUT", "states/secure_boot", {"target": False}, 202),
        *("change_node_secure_boot", {"state": False}),
    ),
    (
        *("secure-boot-word", "PUT", "states/secure_boot", {"target": "on"}, 202),
        *("change_node_secure_boot", {"state": True}),
    ),
    (
        *("secure-boot-number", "PUT", "states/secure_boot", {"target": 1}, 202),
        *("change_node_secure_boot", {"state": True}),
    ),
    ("nmi", "PUT", "management/inject_nmi", {}, 204, "inject_nmi", {}),
    (
        *("lamp", "PUT", "management/indicators/system/led", {"state": "on"}, 204),
        *("set_indicator_state", {"component": "system", "indicator": "led", "state": "on"}),
    ),
    (
        *("lamp-named", "PUT", "management/indicators/led-0@nic", {"state": "blinking"}, 204),
        *("set_indicator_state", {"component": "nic", "indicator": "led-0", "state": "blinking"}),
    ),
    (
        *("attach", "POST", "vmedia", {"device_type": "cdrom", "image_url": IMAGE}, 204),
        *("attach_virtual_media", {"device_type": "cdrom", "image_url": IMAGE}),
    ),
    (
        "attach-from-source",
        "POST",
        "vmedia",
        {"device_type": "disk", "image_url": "nfs://a/b", "image_download_source": "http"},
        204,
        "attach_virtual_media",
        {"device_type": "disk", "image_url": "nfs://a/b"},
    ),
    ("detach", "DELETE", "vmedia", None, 204, "detach_virtual_media", {"device_types": None}),
    (
        *("detach-some", "DELETE", "vmedia?device_types=cdrom,Disk,cdrom", None, 204),
        *("detach_virtual_media", {"device_types": ["cdrom", "disk"]}),
    ),
)
SINCE = {
    "PUT states/boot_mode": 76,
    "PUT states/secure_boot": 76,
    "PUT management/inject_nmi": 29,
    "GET vmedia": 93,
    "POST vmedia": 89,
    "DELETE vmedia": 89,
}


@pytest.mark.parametrize("number", range(len(ORDERS)), ids=[order[0] for order in ORDERS])
def test_an_order_goes_to_the_nodes_conductor(
    api: Client, recorder: Recorder, add_node: AddNode, number: int
) -> None:
    _, verb, path, body, status, method, args = ORDERS[number]
    node = add_node(name="n1", provision_state="active", maintenance=True)
    answer = api.request(verb, f"/v1/nodes/n1/{path}", body)
    assert (answer.status, answer.body) == (status, b"")
    assert recorder.calls == [(method, {"node_uuid": node["uuid"], **args})]
    assert recorder.hosts == [HOST]
    if status == 202:
        assert answer.headers["location"].endswith("/v1/nodes/n1/states")


@pytest.mark.parametrize("order", SINCE)
def test_bmc_paths_are_404_before_their_version(
    api: Client, recorder: Recorder, add_node: AddNode, order: str
) -> None:
    verb, path = order.split()
    bodies = {
        "PUT states/boot_mode": {"target": "bios"},
        "PUT states/secure_boot": {"target": True},
        "POST vmedia": {"device_type": "cdrom", "image_url": IMAGE},
    }
    body = bodies.get(order)
    recorder.answers["get_virtual_media"] = []
    url = f"/v1/nodes/{add_node()['uuid']}/{path}"
    assert api.at(SINCE[order] - 1).request(verb, url, body).status == 404
    assert recorder.calls == []
    assert api.at(SINCE[order]).request(verb, url, body).status < 300


# -- what is refused -------------------------------------------------------------------------

BAD: tuple[tuple[str, str, Any, str], ...] = (
    # method, path below the node, body, what the refusal names
    ("PUT", "states/boot_mode", {"target": "efi"}, "target"),
    ("PUT", "states/boot_mode", {"target": "UEFI"}, "target"),
    ("PUT", "states/boot_mode", {"target": 1}, "target"),
    ("PUT", "states/boot_mode", {"target": "x" * 5000}, "target"),
    ("PUT", "states/boot_mode", {}, "target"),
    ("PUT", "states/boot_mode", None, "target"),
    ("PUT", "states/boot_mode", {"target": "uefi", "force": True}, "force"),
    ("PUT", "states/boot_mode", ["uefi"], "object"),
    ("PUT", "states/secure_boot", {"target": "maybe"}, "target"),
    ("PUT", "states/secure_boot", {"target": 2}, "target"),
    ("PUT", "states/secure_boot", {"target": None}, "target"),
    ("PUT", "states/secure_boot", {}, "target"),
    ("PUT", "management/inject_nmi", {"hard": True}, "hard"),
    ("GET", "management/indicators/wheel", None, "component"),
    ("GET", "management/indicators/led@wheel", None, "component"),
    ("GET", "management/indicators/@system", None, "indicator"),
    ("GET", "management/indicators/wheel/led", None, "component"),
    ("PUT", "management/indicators/led", {"state": "on"}, "indicator"),
    ("PUT", "management/indicators/system/led", {"state": "dim"}, "state"),
    ("PUT", "management/indicators/system/led", {"state": "unknown"}, "state"),
    ("PUT", "management/indicators/system/led", {}, "state"),
    ("PUT", "management/indicators/led@system", {"state": True}, "state"),
    ("POST", "vmedia", {"image_url": IMAGE}, "device_type"),
    ("POST", "vmedia", {"device_type": "cdrom"}, "image_url"),
    ("POST", "vmedia", {"device_type": "dvd", "image_url": IMAGE}, "device_type"),
    ("POST", "vmedia", {"device_type": "cdrom", "image_url": IMAGE, "user": "a"}, "user"),
    *(
        (
            "POST",
            "vmedia",
            {"device_type": "cdrom", "image_url": IMAGE, "image_download_source": source},
            "image_download_source",
        )
        for source in ("local", "swift", "", 5)
    ),
    *(
        ("POST", "vmedia", {"device_type": "cdrom", "image_url": url}, "image_url")
        for url in (
            *("", "tools.iso", "/srv/tools.iso", "file:///etc/shadow", "ftp://a/b", "http://"),
            *(
                "http:///x",
                "http://a b/",
                "http://a/\n",
                "gopher://a",
                "http://[::1",
                "http://a:b/",
            ),
            *("http://a:0/x", "javascript:alert(1)", "http://ä/x", "http://a/" + "x" * 2048, 7),
            *("glance://8e0c4b8e", "http:a/b", "\x00"),
        )
    ),
    ("DELETE", "vmedia?device_types=dvd", None, "device_types"),
    ("DELETE", "vmedia?device_types=", None, "device_types"),
    ("DELETE", "vmedia?device_types=cdrom,,disk", None, "device_types"),
    ("DELETE", "vmedia?devices=cdrom", None, "devices"),
    ("GET", "vmedia?all=1", None, "all"),
)


@pytest.mark.parametrize(
    "number", range(len(BAD)), ids=[f"{n}-{bad[1][:24]}-{bad[3]}" for n, bad in enumerate(BAD)]
)
def test_bad_input_is_named_and_goes_nowhere(
    api: Client, recorder: Recorder, add_node: AddNode, number: int
) -> None:
    verb, path, body, named = BAD[number]
    answer = api.request(verb, f"/v1/nodes/{add_node()['uuid']}/{path}", body)
    assert (answer.status, recorder.calls) == (400, [])
    assert named in answer.text
    assert len(answer.body) < 1000


def test_a_refused_address_does_not_give_its_password_away(api: Client, add_node: AddNode) -> None:
    body = {"device_type": "cdrom", "image_url": "ftp://joe:s3cret@a/b"}
    answer = api.post(f"/v1/nodes/{add_node()['uuid']}/vmedia", body)
    assert (answer.status, b"s3cret" in answer.body) == (400, False)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    "order",
    [
        ("PUT", "states/boot_mode", {"target": "uefi"}),
        ("PUT", "states/secure_boot", {"target": True}),
        ("POST", "vmedia", {"device_type": "cdrom", "image_url": IMAGE}),
        ("DELETE", "vmedia", None),
    ],
    ids=["boot-mode", "secure-boot", "attach", "detach"],
)
def test_a_node_on_its_way_is_left_alone(
    api: Client, recorder: Recorder, add_node: AddNode, order: tuple[str, str, Any], state: State
) -> None:
    verb, path, body = order
    node = add_node(provision_state=state.value)
    answer = api.request(verb, f"/v1/nodes/{node['uuid']}/{path}", body)
    moving = {
        *("deploying", "wait call-back", "cleaning", "clean wait", "verifying", "deleting"),
        *("inspecting", "inspect wait", "adopting", "rescuing", "rescue wait", "unrescuing"),
        *("servicing", "service wait"),
    }
    if state in moving:
        assert (answer.status, recorder.calls, state.value in answer.text) == (409, [], True)
    else:
        assert answer.status < 300
    assert moving == states.UNSTABLE


def test_unknown_node_is_404_without_a_call(api: Client, recorder: Recorder) -> None:
    for verb, path, body in (
        ("PUT", "states/boot_mode", {"target": "uefi"}),
        ("PUT", "management/inject_nmi", None),
        ("GET", "management/indicators", None),
        ("GET", "vmedia", None),
    ):
        assert api.request(verb, f"/v1/nodes/nobody/{path}", body).status == 404
    assert recorder.calls == []


def test_operation_that_the_driver_cannot_do_is_400(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    unsupported = errors.UnsupportedDriverExtension(driver="ipmi", extension="inject_nmi")
    recorder.answers["inject_nmi"] = unsupported
    answer = api.put(f"/v1/nodes/{add_node()['uuid']}/management/inject_nmi")
    assert (answer.status, "inject_nmi" in answer.text) == (400, True)


# -- what is shown ---------------------------------------------------------------------------


def test_lamps_are_listed_and_read(api: Client, recorder: Recorder, add_node: AddNode) -> None:
    node = add_node()
    path = f"/v1/nodes/{node['uuid']}/management/indicators"
    recorder.answers["get_supported_indicators"] = {
        "system": {"led": {"readonly": False, "states": ["off", "on"]}},
        "disk": {"ssd0": {"states": ["off"]}},
    }
    recorder.answers["get_indicator_state"] = "blinking"
    first, second = api.get(path).json["indicators"]
    assert [link["href"] for link in first.pop("links")] == [
        f"http://localhost:6385/v1{path[3:]}/led@system",
        f"http://localhost:6385{path[3:]}/led@system",
    ]
    assert first == {
        "name": "led@system",
        "component": "system",
        "readonly": False,
        "states": ["off", "on"],
    }
    assert (second["name"], second["readonly"]) == ("ssd0@disk", True)
    api.get(f"{path}/disk")
    assert recorder.calls[-1][1]["component"] == "disk"
    for one in ("led@system", "system/led"):
        answer = api.get(f"{path}/{one}")
        assert (answer.status, answer.json) == (200, {"state": "blinking"})
        which = {"node_uuid": node["uuid"], "component": "system", "indicator": "led"}
        assert recorder.calls[-1] == ("get_indicator_state", which)


def test_a_lamp_may_have_any_name(api: Client, recorder: Recorder, add_node: AddNode) -> None:
    node = add_node()
    lamps = {"system": {"Front LED @ 1/2": {"readonly": True, "states": ["on"]}}}
    recorder.answers["get_supported_indicators"] = lamps
    recorder.answers["get_indicator_state"] = "on"
    (lamp,) = api.get(f"/v1/nodes/{node['uuid']}/management/indicators").json["indicators"]
    assert lamp["name"] == "Front LED @ 1/2@system"
    href = lamp["links"][0]["href"]
    assert href.endswith("/management/indicators/Front%20LED%20%40%201%2F2@system")
    api.get(f"/v1/nodes/{node['uuid']}/management/indicators/LED @ 1@system")
    assert recorder.calls[-1][1]["indicator"] == "LED @ 1"


def test_virtual_drives_are_a_bare_list(api: Client, recorder: Recorder, add_node: AddNode) -> None:
    drives = [{"media_types": ["cdrom"], "inserted": False, "image": None}]
    recorder.answers["get_virtual_media"] = drives
    answer = api.get(f"/v1/nodes/{add_node()['uuid']}/vmedia")
    assert (answer.status, answer.json) == (200, drives)
