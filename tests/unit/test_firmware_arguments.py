"""Arguments of the steps on firmware."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import arguments

URL = "https://images.example.org/BIOS-2.0.bin"
GOOD = {"component": "bios", "url": URL}
SECRET = "geheim"


def test_settings_are_read_in_order() -> None:
    given = [{"name": "a", "value": 1}, {"name": "b", "value": None}, {"name": "a", "value": 2}]
    assert arguments.settings(given) == {"a": 2, "b": None}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (None, "settings"),
        ([], "settings"),
        ({"a": SECRET}, "settings"),
        ("a=b", "settings"),
        ([{"name": "a", "value": 1}, SECRET], "settings/1"),
        ([{"name": "a"}], "settings/0"),
        ([{"name": "a", "value": SECRET, "more": 1}], "settings/0"),
        ([{"name": "", "value": SECRET}], "settings/0/name"),
        ([{"name": 7, "value": SECRET}], "settings/0/name"),
    ],
)
def test_bad_settings_are_named_by_their_place_and_no_value_is_repeated(
    given: Any, path: str
) -> None:
    with pytest.raises(errors.InvalidParameter) as found:
        arguments.settings(given)
    assert found.value.facts["path"] == path
    assert SECRET not in str(found.value)


def test_images_are_read_in_order() -> None:
    given = [{**GOOD, "component": "bmc", "wait": 30}, GOOD, {**GOOD, "component": "nic:7"}]
    found = arguments.images(given)
    assert [(one.component, one.wait) for one in found] == [("bmc", 30), ("bios", 0), ("nic:7", 0)]
    assert {one.url for one in found} == {URL}


def test_an_image_is_shown_without_its_secrets() -> None:
    url = f"http://me:{SECRET}@[::1]:81/a.bin?signature={SECRET}"
    [image] = arguments.images([{**GOOD, "url": url}])
    assert image.shown == "http://[::1]:81/a.bin?******"
    assert SECRET in image.url


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (None, "settings"),
        ([], "settings"),
        ([GOOD, URL], "settings/1"),
        ([{"url": URL}], "settings/0/component"),
        ([{"component": "bios"}], "settings/0/url"),
        ([{**GOOD, "checksum": "1"}], "settings/0"),
        ([{**GOOD, "component": "disk"}], "settings/0/component"),
        ([{**GOOD, "component": "nic:"}], "settings/0/component"),
        ([{**GOOD, "component": ["bios"]}], "settings/0/component"),
        ([{**GOOD, "url": "file:///etc/passwd"}], "settings/0/url"),
        ([{**GOOD, "url": "swift://a/b"}], "settings/0/url"),
        ([{**GOOD, "url": "images.example.org/a.bin"}], "settings/0/url"),
        ([{**GOOD, "url": "http://"}], "settings/0/url"),
        ([{**GOOD, "url": "http://[::1"}], "settings/0/url"),
        ([{**GOOD, "url": "http://a/b c"}], "settings/0/url"),
        ([{**GOOD, "url": 7}], "settings/0/url"),
        ([{**GOOD, "wait": -1}], "settings/0/wait"),
        ([{**GOOD, "wait": True}], "settings/0/wait"),
        ([{**GOOD, "wait": 10**30}], "settings/0/wait"),
        ([GOOD, {**GOOD, "wait": "1"}], "settings/1/wait"),
    ],
)
def test_bad_images_are_named_by_their_place(given: Any, path: str) -> None:
    with pytest.raises(errors.InvalidParameter) as found:
        arguments.images(given)
    assert found.value.facts["path"] == path
