"""Orders that go to a node's conductor: power, boot, BMC, vendor passthru, and RAID."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import raid, states
from ironic_lite.domain.states import State
from ironic_lite.drivers.registry import Registry, Settings
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_fixture import configure
from tests.support.conductor_recorder import Recorder
from tests.support.operator import Operator
from tests.support.wsgi_client import Client, Response

# Power, validation, boot device and clean steps: what goes straight to a node's conductor.

STEPS = [
    {"interface": "deploy", "step": "erase", "priority": 10, "abortable": True, "args": []},
    {"interface": "raid", "step": "half", "priority": 0.5, "abortable": False, "args": []},
    {"interface": "bios", "step": "manual", "priority": 0, "abortable": False, "args": []},
]

# -- power -----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
def test_power_is_refused_only_while_cleaning(
    state: State, api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(provision_state=state.value, maintenance=True)
    answer = api.put(f"/v1/nodes/{node['uuid']}/states/power", {"target": "power on"})
    if state in {State.CLEANING, State.CLEANWAIT}:
        assert (answer.status, recorder.calls) == (400, [])
        assert state in answer.text
        return
    assert (answer.status, answer.body) == (202, b"")
    assert answer.headers["location"].endswith(f"/v1/nodes/{node['uuid']}/states")
    asked = {"node_uuid": node["uuid"], "target": "power on", "timeout": None}
    assert recorder.calls == [("change_node_power_state", asked)]
    assert recorder.hosts == [HOST]


@pytest.mark.parametrize(
    ("version", "body", "status"),
    [
        (115, {"target": "power off"}, 202),
        (115, {"target": "rebooting", "timeout": 30}, 202),
        (115, {"target": "power on", "timeout": "30"}, 202),
        (27, {"target": "soft power off", "timeout": 1}, 202),
        (27, {"target": "soft rebooting"}, 202),
        (26, {"target": "soft power off"}, 406),
        (26, {"target": "soft rebooting"}, 406),
        (26, {"target": "power on", "timeout": 5}, 406),
        (1, {"target": "power on"}, 202),
        (115, {"target": "power on", "timeout": 0}, 400),
        (115, {"target": "power on", "timeout": -1}, 400),
        (115, {"target": "power on", "timeout": "soon"}, 400),
        (115, {"target": "power on", "timeout": 1.5}, 400),
        (115, {"target": "power on", "timeout": True}, 400),
        (115, {"target": "power on", "timeout": 2**63}, 400),
        (115, {"target": "POWER ON"}, 400),
        (115, {"target": "reboot"}, 400),
        (115, {"target": 1}, 400),
        (115, {"target": None}, 400),
        (115, {}, 400),
        (115, None, 400),
        (115, {"target": "power on", "force": True}, 400),
    ],
)
def test_power_requests_are_checked(
    api: Client, add_node: AddNode, version: int, body: Any, status: int
) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/states/power"
    assert api.at(version).put(path, body).status == status


def test_a_node_that_must_stay_on_is_not_powered_off(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    path = f"/v1/nodes/{add_node(disable_power_off=True)['uuid']}/states/power"
    for target, status in [("power off", 409), ("soft power off", 409), ("rebooting", 202)]:
        assert api.put(path, {"target": target}).status == status


def test_states_are_shown_by_version(api: Client, add_node: AddNode) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/states"
    old = {
        *("console_enabled", "last_error", "power_state", "provision_state"),
        *("provision_updated_at", "target_power_state", "target_provision_state"),
    }
    assert set(api.at(1).get(path).json) == old
    assert set(api.at(12).get(path).json) == old | {"raid_config", "target_raid_config"}
    assert api.get(path).json.keys() - api.at(74).get(path).json == {"boot_mode", "secure_boot"}


# -- validation and boot device --------------------------------------------------------------


def test_a_node_is_validated_by_path_or_query(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(name="valid")
    found = {"power": {"result": True}, "deploy": {"result": False, "reason": "no image"}}
    recorder.answers["validate_driver_interfaces"] = found
    for path in (
        "/v1/nodes/valid/validate",
        "/v1/nodes/validate?node=valid",
        f"/v1/nodes/validate?node_uuid={node['uuid']}",
    ):
        answer = api.get(path)
        assert (answer.status, answer.json) == (200, found)
    both = f"/v1/nodes/validate?node=nobody&node_uuid={node['uuid']}"
    assert api.get(both).status == 200
    assert api.get("/v1/nodes/validate").status == 400
    assert api.get("/v1/nodes/validate?node_uuid=valid").status == 400
    assert api.get("/v1/nodes/validate?node=nobody").status == 404


def test_the_boot_device_is_read_and_set(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node()
    path = f"/v1/nodes/{node['uuid']}/management/boot_device"
    recorder.answers["get_boot_device"] = {"boot_device": "pxe", "persistent": None}
    recorder.answers["get_supported_boot_devices"] = ["pxe", "disk"]
    assert api.get(path).json == {"boot_device": "pxe", "persistent": None}
    assert api.get(f"{path}/supported").json == {"supported_boot_devices": ["pxe", "disk"]}
    answer = api.put(path, {"boot_device": "disk", "persistent": "yes"})
    assert (answer.status, answer.body) == (204, b"")
    asked = {"node_uuid": node["uuid"], "device": "disk", "persistent": True}
    assert recorder.calls[-1] == ("set_boot_device", asked)
    assert api.put(f"{path}?boot_device=pxe").status == 204
    assert recorder.calls[-1][1]["persistent"] is False
    for body in ({}, {"boot_device": 5}, {"boot_device": "pxe", "persistent": "sometimes"}):
        assert api.put(path, body).status == 400


# -- clean steps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", 3),
        ("?min_priority=0", 3),
        ("?min_priority=0.5", 2),
        ("?min_priority=1", 1),
        ("?min_priority=1e1", 1),
        ("?min_priority=-5", 3),
        ("?min_priority=11", 0),
    ],
)
def test_clean_steps_are_a_bare_list(
    api: Client, recorder: Recorder, add_node: AddNode, query: str, shown: int
) -> None:
    recorder.answers["get_clean_steps"] = STEPS
    answer = api.get(f"/v1/nodes/{add_node()['uuid']}/cleaning/steps{query}")
    assert (answer.status, answer.json) == (200, STEPS[:shown])


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "high", "", "1,5"])
def test_min_priority_is_a_finite_number(api: Client, add_node: AddNode, value: str) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/cleaning/steps?min_priority={value}"
    answer = api.get(path)
    assert (answer.status, "min_priority" in answer.text) == (400, True)


@pytest.mark.parametrize("seconds", [30, -1])
def test_clean_steps_not_known_yet_are_202(
    api: Client, recorder: Recorder, add_node: AddNode, seconds: int
) -> None:
    recorder.answers["get_clean_steps"] = errors.StepsUnavailable(node="n", seconds=seconds)
    answer = api.get(f"/v1/nodes/{add_node()['uuid']}/cleaning/steps")
    assert answer.status == 202
    assert answer.headers["retry-request-after"] == str(seconds)
    assert list(answer.json) == ["message"]
    assert "not available yet" in answer.json["message"]


def test_clean_steps_begin_with_1_15_and_need_no_lock(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    recorder.answers["get_clean_steps"] = STEPS
    node = add_node(reservation="other-host")
    path = f"/v1/nodes/{node['uuid']}/cleaning/steps"
    assert api.at(14).get(path).status == 404
    assert api.at(15).get(path).status == 200
    assert api.get(f"/v1/nodes/{node['uuid']}/cleaning/clean_steps").status == 404


# Boot mode, secure boot, NMI, lamps and virtual media: what goes through, and what is refused.

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
    (
        "attach-local",
        "POST",
        "vmedia",
        {"device_type": "cdrom", "image_url": IMAGE, "image_download_source": "local"},
        204,
        "attach_virtual_media",
        {"device_type": "cdrom", "image_url": IMAGE, "image_download_source": "local"},
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
        for source in ("swift", "", 5)
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


# Vendor passthru over HTTP: handed on unread, answered as the vendor's method does.

VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def told(result: Any, *, async_call: bool = False, attach: bool = False) -> dict[str, Any]:
    """Return what a conductor says of a call."""
    return {"return": result, "async": async_call, "attach": attach}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("path", ["?method=reset", "/reset"])
def test_a_call_on_a_node_is_handed_on(
    api: Client, recorder: Recorder, add_node: AddNode, verb: str, path: str
) -> None:
    node = add_node(name="n1")
    recorder.answers["vendor_passthru"] = told({"done": [1]})
    body = {"warm": True, "method": "of the body"}
    answer = api.at(1).request(verb, f"/v1/nodes/{node['uuid']}/vendor_passthru{path}", body)
    assert (answer.status, answer.json) == (200, {"done": [1]})
    call = {"vendor_method": "reset", "http_method": verb, "info": body}
    assert recorder.calls == [("vendor_passthru", {"node_uuid": node["uuid"], **call})]
    assert recorder.hosts == [HOST]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("path", ["?method=reset", "/reset"])
def test_a_call_on_a_driver_is_handed_on(
    api: Client, recorder: Recorder, verb: str, path: str
) -> None:
    recorder.answers["driver_vendor_passthru"] = told(True)
    answer = api.request(verb, f"/v1/drivers/redfish/vendor_passthru{path}")
    assert (answer.status, answer.json) == (200, True)
    call = {"vendor_method": "reset", "http_method": verb, "info": {}}
    assert recorder.calls == [("driver_vendor_passthru", {"driver": "redfish", **call})]
    assert recorder.hosts == [HOST]


@pytest.mark.parametrize("below", ["nodes/{node}", "drivers/fake-hardware"])
def test_the_answer_says_how_the_method_was_called(
    api: Client, recorder: Recorder, add_node: AddNode, below: str
) -> None:
    path = f"/v1/{below.format(node=add_node()['uuid'])}/vendor_passthru?method=x"
    method = "vendor_passthru" if below.startswith("nodes") else "driver_vendor_passthru"
    for answer, status, body, kind in (
        (told(None, async_call=True), 202, b"", None),
        (told(None), 200, b"null", "application/json"),
        (told(0), 200, b"0", "application/json"),
        (told("a\nb", attach=True), 200, b"a\nb", "text/plain; charset=utf-8"),
        (told({"a": 1}, attach=True), 200, b'{"a":1}', "application/json"),
        (told("", attach=True), 204, b"", None),
    ):
        recorder.answers[method] = answer
        found = api.post(path, {})
        assert (found.status, found.body) == (status, body)
        assert body == b"" or found.headers.get("content-type") == kind
        if kind is not None:
            nosniff = "nosniff" if kind.startswith("text/plain") else None
            assert found.headers.get("x-content-type-options") == nosniff


@pytest.mark.parametrize(
    "call",
    [
        ("", {}, "method"),
        ("?method=", {}, "method"),
        ("?method=x&more=1", {}, "more"),
        ("?method=x", [], "body"),
        ("?method=x", "text", "body"),
        ("?method=x", 5, "body"),
    ],
)
@pytest.mark.parametrize("below", ["nodes/{node}", "drivers/fake-hardware"])
def test_a_bad_call_is_named_and_goes_nowhere(
    api: Client, recorder: Recorder, add_node: AddNode, below: str, call: tuple[str, Any, str]
) -> None:
    query, body, named = call
    path = f"/v1/{below.format(node=add_node()['uuid'])}/vendor_passthru{query}"
    answer = api.post(path, body)
    assert (answer.status, named in answer.text, recorder.calls) == (400, True, [])


def test_bodies_are_bounded_and_must_be_json(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/vendor_passthru?method=x"
    plain = {"Content-Type": "application/json"}
    for verb in ("POST", "DELETE"):
        assert api.request(verb, path, body=b"{", headers=plain).status == 400
        assert api.request(verb, path, {"a": "x" * 2**20}).status == 413
    assert recorder.calls == []


def test_methods_are_listed(api: Client, recorder: Recorder, add_node: AddNode) -> None:
    facts = {"reset": {"http_methods": ["POST"], "async": False, "description": "Reset."}}
    recorder.answers["get_node_vendor_passthru_methods"] = facts
    recorder.answers["get_driver_vendor_passthru_methods"] = {}
    node = add_node()
    answer = api.at(1).get(f"/v1/nodes/{node['uuid']}/vendor_passthru/methods")
    assert (answer.status, answer.json) == (200, facts)
    answer = api.at(1).get("/v1/drivers/fake-hardware/vendor_passthru/methods")
    assert (answer.status, answer.json) == (200, {})
    answers = {"async": True, "return": None, "attach": False}
    recorder.answers["vendor_passthru"] = answers
    assert api.post(f"/v1/nodes/{node['uuid']}/vendor_passthru/methods", {}).status == 202


def test_vendor_method_of_an_unknown_node_or_driver_is_404(api: Client, recorder: Recorder) -> None:
    for path in ("nodes/nobody", "drivers/toaster"):
        for below in ("?method=x", "/methods", "/x"):
            assert api.get(f"/v1/{path}/vendor_passthru{below}").status == 404
    assert recorder.calls == []


def test_call_that_the_vendor_refuses_is_400(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    refusal = errors.InvalidParameter(path="method", reason="does not take GET, only POST")
    recorder.answers["vendor_passthru"] = refusal
    answer = api.get(f"/v1/nodes/{add_node()['uuid']}/vendor_passthru?method=x")
    assert (answer.status, "only POST" in answer.text) == (400, True)


# PUT /v1/nodes/{node}/states/raid and what can be said there, by an API with a real conductor.

ROOT = {"raid_level": "1", "size_gb": 100, "is_root_volume": True}
DATA = {"raid_level": "5", "size_gb": "MAX", "number_of_physical_disks": 3}
WANTED = {"logical_disks": [ROOT, DATA]}


def service(database: Database, **options: Any) -> Operator:
    """Start a service whose drivers are those of the options."""
    registry = Registry.load(Settings.read(configure(**options)))
    return Operator(database, registry=registry, **options)


@pytest.fixture
def operator(sqlite_database: Database) -> Iterator[Operator]:
    types = ["fake-hardware", "redfish"]
    found = service(sqlite_database, DEFAULT__enabled_hardware_types=types)
    yield found
    found.close()


def asks(operator: Operator, node: str, config: Any, version: int | None = None) -> Response:
    api = operator.api if version is None else operator.api.at(version)
    return api.put(f"/v1/nodes/{node}/states/raid", config)


def shown(operator: Operator, node: str) -> tuple[Any, Any]:
    states = operator.api.get(f"/v1/nodes/{node}/states").json
    return states["target_raid_config"], states["raid_config"]


@pytest.mark.parametrize("state", ["enroll", "manageable", "active"])
@pytest.mark.parametrize("version", [12, None])
def test_the_configuration_is_kept_and_taken_away(
    operator: Operator, state: str, version: int | None
) -> None:
    node = operator.enroll(state, name="metal")
    answer = asks(operator, "metal", WANTED, version)
    assert (answer.status, answer.body) == (204, b"")
    assert shown(operator, node) == (WANTED, {})
    assert operator.shows(node)["target_raid_config"] == WANTED
    assert asks(operator, node, {}, version).status == 204
    assert shown(operator, node) == ({}, {})


def test_the_configuration_is_built_by_the_clean_step_and_not_before(operator: Operator) -> None:
    node = operator.enroll()
    assert asks(operator, node, WANTED).status == 204
    args = {"create_nonroot_volumes": False, "delete_existing": True}
    step = {"interface": "raid", "step": "create_configuration", "args": args}
    row = operator.provision(node, "clean", clean_steps=[step])
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert row["raid_config"]["logical_disks"] == [ROOT]
    assert row["properties"] == {"local_gb": 100, "capabilities": "raid_level:1"}
    row = operator.clean(node, "raid.delete_configuration")
    assert (row["raid_config"], row["target_raid_config"]) == ({}, WANTED)


def test_building_without_a_configuration_builds_nothing(operator: Operator) -> None:
    row = operator.clean(operator.enroll(), "raid.create_configuration")
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert row["raid_config"] == {}


BAD_RAID: list[tuple[Any, str]] = [
    ([], "must be an object"),
    ("x", "must be an object"),
    ({"logical_disks": None}, "logical_disks: must be a list"),
    ({"logical_disks": []}, "logical_disks: must be a list"),
    ({"logical_disks": [ROOT], "vendor": 1}, "vendor: unknown key"),
    ({"logical_disk": [ROOT]}, "logical_disk: unknown key"),
    ({"logical_disks": [1]}, "logical_disks/0: must be an object"),
    ({"logical_disks": [{}]}, "logical_disks/0/raid_level: is required"),
    ({"logical_disks": [{**ROOT, "raid_level": "9"}]}, "logical_disks/0/raid_level: '9'"),
    ({"logical_disks": [{**ROOT, "size_gb": -5}]}, "logical_disks/0/size_gb: -5"),
    ({"logical_disks": [{**ROOT, "size_gb": "10"}]}, "logical_disks/0/size_gb: '10'"),
    ({"logical_disks": [ROOT, {**ROOT, "x": 1}]}, "logical_disks/1/x: unknown key"),
    ({"logical_disks": [ROOT, DATA, ROOT]}, "logical_disks/2/is_root_volume: there is a root"),
    ({"logical_disks": [{**ROOT, "physical_disks": ["a"]}]}, "logical_disks/0/controller: is req"),
    ({"logical_disks": [{**DATA, "disk_type": "tape"}]}, "logical_disks/0/disk_type: 'tape'"),
]


@pytest.mark.parametrize(("config", "reason"), BAD_RAID, ids=range(len(BAD_RAID)))
def test_invalid_raid_config_is_refused_by_its_path_and_changes_nothing(
    operator: Operator, config: Any, reason: str
) -> None:
    node = operator.enroll()
    assert asks(operator, node, WANTED).status == 204
    before = operator.rig.get(node)
    answer = asks(operator, node, config)
    assert answer.status == 400
    assert reason in answer.text
    assert operator.rig.get(node) == before


@pytest.mark.parametrize("body", [b"{", b"\xff", b"5"])
def test_body_that_is_no_json_object_is_refused(operator: Operator, body: bytes) -> None:
    node = operator.enroll()
    path = f"/v1/nodes/{node}/states/raid"
    headers = {"Content-Type": "application/json"}
    assert operator.api.request("PUT", path, body=body, headers=headers).status == 400


def test_a_node_without_raid_refuses_one_but_lets_it_be_taken_away(operator: Operator) -> None:
    node = operator.enroll(raid_interface="no-raid")
    answer = asks(operator, node, WANTED)
    assert answer.status == 404
    assert "does not support raid" in answer.text
    assert asks(operator, node, {}).status == 204


def test_the_validation_of_a_node_speaks_of_its_volumes(operator: Operator) -> None:
    node = operator.enroll()
    wrong = {"logical_disks": [{**ROOT, "raid_level": "9"}]}
    assert operator.api.get(f"/v1/nodes/{node}/validate").json["raid"] == {"result": True}
    operator.rig.edit(node, target_raid_config=wrong)  # as an interface of others may have let in
    said = operator.api.get(f"/v1/nodes/{node}/validate").json["raid"]
    assert said["result"] is False
    assert said["reason"].startswith("target_raid_config/logical_disks/0/raid_level: ")


def test_a_locked_node_is_left_alone(operator: Operator) -> None:
    node = operator.enroll()
    with operator.rig.tasks.lock(operator.rig.who, node):
        assert asks(operator, node, WANTED).status == 409
    assert shown(operator, node) == ({}, {})


def test_an_unknown_node_is_not_found_and_an_old_client_is_told_the_version(
    operator: Operator,
) -> None:
    assert asks(operator, "nobody", WANTED).status == 404
    node = operator.enroll()
    assert asks(operator, node, WANTED, 11).status == 406
    assert operator.api.at(11).get(f"/v1/nodes/{node}/states").status == 200
    assert "raid_config" not in operator.api.at(11).get(f"/v1/nodes/{node}/states").json


def test_a_patch_leads_to_the_right_place(operator: Operator) -> None:
    node = operator.enroll()
    answer = operator.patches(node, target_raid_config=WANTED)
    assert answer.status == 400
    assert shown(operator, node) == ({}, {})


# -- what can be said ------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["fake-hardware", "redfish"])
def test_the_properties_of_logical_disks_are_told(operator: Operator, driver: str) -> None:
    path = f"/v1/drivers/{driver}/raid/logical_disk_properties"
    answer = operator.api.get(path)
    assert answer.status == 200
    assert answer.json == raid.properties()
    assert operator.api.at(12).get(path).json == raid.properties()
    assert operator.api.at(11).get(path).status == 406


def test_an_unknown_driver_has_none(operator: Operator) -> None:
    answer = operator.api.get("/v1/drivers/nobody/raid/logical_disk_properties")
    assert answer.status == 404
