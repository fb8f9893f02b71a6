"""What the agent is told about an image."""

import hashlib
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers.agent import image_info

SHA256 = hashlib.sha256(b"image").hexdigest()
MD5 = hashlib.md5(b"image", usedforsecurity=False).hexdigest()
URL = "http://images.example/jammy.img"
PLAIN: dict[str, Any] = {"image_source": URL, "image_checksum": SHA256}


def _told(info: dict[str, Any], **more: Any) -> dict[str, Any]:
    image = image_info.read(info)
    return image_info.for_agent(
        image, url=URL, node_uuid="n-1", run="r-1", boot_mode="uefi", stream=True, **more
    )


def test_a_plain_image_is_told_whole() -> None:
    """Address, digest in both spellings, boot mode; nothing of partitions."""
    assert _told(PLAIN) == {
        "id": "a5fa777a-jammy.img",
        "urls": [URL],
        "node_uuid": "n-1",
        "image_type": "whole-disk",
        "deploy_boot_mode": "uefi",
        "stream_raw_images": True,
        "os_hash_algo": "sha256",
        "os_hash_value": SHA256,
        "checksum": SHA256,
    }


def test_each_deployment_writes_its_image() -> None:
    """An agent skips one that has the name of the one before; a repeated step is no other one."""
    image = image_info.read(PLAIN)
    names = [
        image_info.for_agent(image, url=URL, node_uuid="n", run=run, boot_mode="bios", stream=True)[
            "id"
        ]
        for run in ("r-1", "r-1", "r-2")
    ]
    assert names[0] == names[1] != names[2]


def test_a_partition_image_is_told_its_sizes_and_never_streamed() -> None:
    """Sizes in MiB, from GiB."""
    info = {**PLAIN, "image_type": "partition", "root_gb": "10", "swap_mb": 512}
    told = _told(info, disk_label="gpt", proxies=None)
    assert told["stream_raw_images"] is False
    assert (told["root_mb"], told["swap_mb"], told["ephemeral_mb"]) == (10240, 512, 0)
    assert told["disk_label"] == "gpt"
    assert "proxies" not in told


@pytest.mark.parametrize(
    ("info", "told"),
    [
        (
            {"image_checksum": "https://images.example/SHA256SUMS"},
            {"checksum": "https://images.example/SHA256SUMS"},
        ),
        (
            {
                "image_os_hash_algo": "sha512",
                "image_os_hash_value": "https://images.example/SHA512SUMS",
            },
            {"os_hash_algo": "sha512", "os_hash_value": "https://images.example/SHA512SUMS"},
        ),
    ],
    ids=["any kind", "one kind"],
)
def test_the_address_of_a_checksum_file_goes_to_the_agent(
    info: dict[str, Any], told: dict[str, Any]
) -> None:
    """It reads such files itself."""
    found = _told({"image_source": URL, **info})
    assert {key: found[key] for key in found if "hash" in key or key == "checksum"} == told


@pytest.mark.parametrize(
    ("name", "ident"),
    [("a%2F..%2Fb.img", "a_.._b.img"), ("", "image"), ("..", "image"), ("ü.img", "_.img")],
)
def test_the_name_of_an_image_never_leads_the_agent_astray(name: str, ident: str) -> None:
    """It makes a file of that name."""
    info = {**PLAIN, "image_source": f"http://images.example/{name}"}
    assert _told(info)["id"].partition("-")[2] == ident


@pytest.mark.parametrize(
    ("info", "path"),
    [
        ({}, "image_source"),
        ({"image_source": ""}, "image_source"),
        ({"image_source": "glance://x"}, "image_source"),
        ({"image_source": URL}, "image_checksum"),
        ({**PLAIN, "image_checksum": MD5}, "image_checksum"),
        ({**PLAIN, "image_checksum": "file:///sums"}, "image_checksum"),
        ({**PLAIN, "image_disk_format": "iso"}, "image_disk_format"),
        ({**PLAIN, "image_type": "disk"}, "image_type"),
        ({**PLAIN, "image_type": "partition"}, "root_gb"),
        ({**PLAIN, "image_type": "partition", "root_gb": 0}, "root_gb"),
        ({**PLAIN, "image_type": "partition", "root_gb": "9" * 30}, "root_gb"),
        ({**PLAIN, "swap_mb": True}, "swap_mb"),
        ({**PLAIN, "preserve_ephemeral": "maybe"}, "preserve_ephemeral"),
        ({**PLAIN, "image_download_source": "swift"}, "image_download_source"),
    ],
    ids=[
        "nothing",
        "empty",
        "glance",
        "no checksum",
        "md5",
        "checksum of a file",
        "format",
        "type",
        "no size",
        "no room",
        "more than a number of JSON",
        "flag for a number",
        "word for a flag",
        "download",
    ],
)
def test_image_that_no_agent_can_write_is_refused_by_its_key(
    info: dict[str, Any], path: str
) -> None:
    """Minutes before an agent runs."""
    with pytest.raises(errors.InvalidRequest) as caught:
        image_info.read(info)
    assert caught.value.facts["path"] == f"instance_info/{path}"


@pytest.mark.parametrize(
    ("info", "local"),
    [
        (PLAIN, False),
        ({**PLAIN, "image_download_source": "local"}, True),
        ({**PLAIN, "image_source": "file:///images/x.raw"}, True),
    ],
    ids=["http", "asked for", "file"],
)
def test_conductor_fetches_images_that_no_agent_can(info: dict[str, Any], local: bool) -> None:
    """A file of this machine can be fetched by no agent."""
    assert image_info.read(info).local is local


def test_md5_is_the_operators_choice() -> None:
    """Then it is told as it is."""
    image = image_info.read({**PLAIN, "image_checksum": MD5}, md5=True)
    assert image.checksum is not None
    assert image.checksum.algorithm == "md5"


@pytest.mark.parametrize(
    ("hints", "path"),
    [
        ("/dev/sda", "root_device"),
        ({"colour": "red"}, "root_device/colour"),
        ({"name": ["a"]}, "root_device/name"),
        ({"serial": None}, "root_device/serial"),
        ({"serial": "S1", "size": "100 GB"}, "root_device/size"),
    ],
    ids=["text", "unknown", "list", "null", "no size"],
)
def test_hints_that_no_agent_knows_are_refused(hints: object, path: str) -> None:
    """By their place."""
    with pytest.raises(errors.InvalidParameter) as caught:
        image_info.check_hints({"root_device": hints}, "properties")
    assert caught.value.facts["path"] == f"properties/{path}"


def test_hints_that_agents_know_are_taken() -> None:
    """Operators and sizes stay text; none at all is fine."""
    image_info.check_hints({}, "properties")
    hints = {"size": "> 100", "rotational": "no", "name": "s== /dev/sda", "serial": "== 7"}
    image_info.check_hints({"root_device": hints}, "properties")
