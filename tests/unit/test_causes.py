"""Keys of causes: texts without what differs between nodes."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.domain import causes, failures

NODE = {
    "name": "r01-u01",
    "uuid": "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "instance_uuid": "9c858901-8a57-4791-81fe-4c455b099bc9",
    "driver_info": {
        "redfish_address": "https://bmc-17.example.org:8443/redfish",
        "ipmi_address": "10.0.3.7",
        "odd_address": "https://[",
        "port_address": 7,
        "redfish_username": "root",
    },
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("disk sdb: read-only, sector 4711", "disk sd#: read-only, sector #"),
        ("vda, xvdf and sdaa1", "sd#, sd# and sd#"),
        ("nvme0n1 has no SMART data", "nvme#n# has no SMART data"),
        ("node R01-U01 (3F2504E0-4f89-11d3-9a0c-0305e82c3301)", "node NODE (NODE)"),
        ("instance 9c858901-8a57-4791-81fe-4c455b099bc9.", "instance NODE."),
        ("r01-u01-b is not r01-u011", "r#-u#-b is not r#-u#"),
        ("no route to 10.0.3.7", "no route to NODE"),
        ("https://bmc-17.example.org:8443/redfish/v1: 503", "HOST/redfish/v#: #"),
        ("GET http://192.0.2.1:80/x?y", "GET HOST/x?y"),
        ("run 7c16a2fd-2a3f-44b0-a9d3-1d8f5d4d9c4e", "run #"),
        ("MAC 52:54:00:AA:bb:cc at 192.0.2.9", "MAC # at #"),
        ("peer 2001:db8::17 and fe80::1", "peer # and #"),
        ("digest deadbeef12 of deadbeef", "digest # of deadbeef"),
        ("status 0x1f after 4.5 s", "status # after # s"),
        ("Foo::bar   on\n\ttwo  lines ", "Foo::bar on two lines"),
        ("x" * 300, "x" * 200),
    ],
)
def test_pattern_has_no_words_of_a_single_node(text: str, expected: str) -> None:
    assert causes.pattern(text, NODE) == expected


def test_pattern_keeps_words_that_are_names_of_two_characters() -> None:
    assert causes.pattern("power on failed", {"name": "on"}) == "power on failed"


@given(st.text(max_size=2000), st.text(max_size=40))
def test_pattern_of_any_text_is_bounded(text: str, name: str) -> None:
    node = {"name": name, "driver_info": {"redfish_address": name}}
    assert len(causes.pattern(text, node)) <= 200


def test_key_is_a_digest_of_verb_step_code_and_pattern() -> None:
    text = b"clean\0deploy.erase_devices\0HardwareError\0disk sd#"
    expected = hashlib.sha256(text).hexdigest()[:12]
    given = ("clean", "deploy.erase_devices", "HardwareError", "disk sd#")
    assert causes.key(*given) == expected
    assert causes.key("clean", None, None, "") == hashlib.sha256(b"clean\0\0\0").hexdigest()[:12]


def failed(text: str, **more: Any) -> dict[str, Any]:
    """Return the error of a run whose step failed."""
    why = errors.CleanStepFailed(step="deploy.erase_devices", reason=text)
    why.__cause__ = errors.HardwareError(reason=text)
    return {**failures.record(why), "step": "deploy.erase_devices", **more}


def test_errors_that_differ_in_disk_and_node_have_one_key() -> None:
    first = causes.of_error("clean", failed("r01-u01: disk sdb, sector 7"), NODE)
    second = causes.of_error("clean", failed("b: disk sdc, sector 19"), {"name": "b"})
    same = causes.of_error("clean", failed("other-1: disk sdc, sector 19"), {"name": "other-1"})
    assert first == same != second
    others = {
        causes.of_error("service", failed("disk"), NODE),
        causes.of_error("clean", failed("disk", step=None), NODE),
        causes.of_error("clean", failed("fan"), NODE),
        causes.of_error("clean", failed("disk"), NODE),
    }
    assert len(others) == 4
