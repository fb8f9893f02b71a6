"""Configuration drives from JSON."""

import base64
import gzip
import io
from typing import Any

import orjson
import pycdlib
import pytest

from ironic_lite import errors
from ironic_lite.images import configdrive

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
DRIVE: dict[str, Any] = {
    "meta_data": {"name": "web-1", "public_keys": {"0": "ssh-ed25519 AAAA"}},
    "user_data": "#cloud-config\nhostname: wéb\n",
    "network_data": {"links": []},
}


def _read(built: str, path: str, *, by: str) -> bytes:
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(gzip.decompress(base64.b64decode(built))))
    out = io.BytesIO()
    iso.get_file_from_iso_fp(out, **{by: path})
    return out.getvalue()


@pytest.mark.parametrize("by", ["rr_path", "joliet_path"])
@pytest.mark.parametrize("version", ["latest", "2012-08-10"])
def test_the_drive_has_the_layout_that_cloud_init_reads(by: str, version: str) -> None:
    """Both naming schemes of the image lead to the same files."""
    built = configdrive.build(DRIVE, uuid=UUID)
    folder = f"/openstack/{version}"
    assert orjson.loads(_read(built, f"{folder}/meta_data.json", by=by)) == {
        "uuid": UUID,
        **DRIVE["meta_data"],
    }
    assert _read(built, f"{folder}/user_data", by=by).decode() == DRIVE["user_data"]
    assert orjson.loads(_read(built, f"{folder}/network_data.json", by=by)) == {"links": []}


def test_the_drive_is_found_by_its_label() -> None:
    """The primary volume descriptor (ECMA-119 8.4.7) says config-2."""
    image = gzip.decompress(base64.b64decode(configdrive.build({}, uuid=UUID)))
    assert image[0x8028:0x8048].decode().rstrip() == "config-2"


def test_values_of_the_caller_precede_known_ones() -> None:
    """UUID and name are filled in only where nothing is said."""
    own = {"meta_data": {"uuid": "mine"}, "user_data": {"a": 1}}
    found = configdrive.files(own, uuid=UUID, name="rack-7")
    assert orjson.loads(found["openstack/latest/meta_data.json"]) == {
        "uuid": "mine",
        "name": "rack-7",
    }
    assert found["openstack/latest/user_data"] == b'{"a":1}'
    assert "openstack/latest/vendor_data.json" not in found


def test_a_drive_too_large_for_the_agent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the place it came from."""
    monkeypatch.setattr(configdrive, "MOST_BYTES", 1024)
    with pytest.raises(errors.InvalidParameter) as caught:
        configdrive.build(DRIVE, uuid=UUID)
    assert caught.value.facts["path"] == "instance_info/configdrive"


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


@pytest.mark.parametrize(
    "given",
    [DRIVE, {"user_data": None}, _packed(b"a file system"), f" {_packed(b'lines')}\n"],
    ids=["object", "empty", "base64", "lines of base64"],
)
def test_valid_configdrive_is_accepted(given: Any) -> None:
    assert configdrive.check(given) is None


def test_the_content_of_an_address_is_for_its_reader_to_judge() -> None:
    found = configdrive.check("https://drives.example/1.gz")
    assert found is not None
    assert found.name == "1.gz"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metadata": {}}, "has the unknown key metadata; known are meta_data, "),
        ({"meta_data": "text"}, "meta_data must be an object"),
        (7, "must be an object, a URL, or a file system"),
        ("file:///etc/shadow", "must be of http or https"),
        ("ftp://drives.example/1.gz", "must begin with one of"),
        ("AAAA", "is no file system as gzip in base64"),
        ("not base64", "is no file system as gzip in base64"),
        (_packed(b"a file system, and not a short one")[:-24], "is truncated"),
    ],
)
def test_configdrive_that_no_agent_can_write_is_refused(given: Any, said: str) -> None:
    with pytest.raises(errors.InvalidParameter, match=said) as why:
        configdrive.check(given)
    assert why.value.facts["path"] == configdrive.PATH


def test_configdrive_that_is_too_large_when_unpacked_is_refused() -> None:
    with pytest.raises(errors.InvalidParameter, match="more than 64 MiB") as why:
        configdrive.check(_packed(bytes(configdrive.MOST_BYTES + 1)))
    assert why.value.facts["path"] == configdrive.PATH
