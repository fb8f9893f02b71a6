"""Images: their sources and checksums, what the agent is told, and configuration drives."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.server
import io
import os
import pathlib
import shutil
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pycdlib
import pytest

from ironic_lite import errors
from ironic_lite.core import config, networks
from ironic_lite.drivers.agent import images
from ironic_lite.images import checksums, configdrive, download
from tests.support import certificates

# Where images may come from.

PATH = "instance_info/image_source"
SEEN: list[str | None] = []
"""The Authorization headers that the web server has seen."""


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("http://images.example/jammy.qcow2", "jammy.qcow2"),
        ("HTTPS://images.example:8443/a/b%20c.raw?x=1", "b c.raw"),
        ("http://[2001:db8::1]/x", "x"),
        ("https://images.example", ""),
    ],
)
def test_an_address_of_the_web_is_taken_as_it_is(given: str, name: str) -> None:
    """Scheme and name are read from it, and nothing is changed."""
    found = download.read_source(given, PATH)
    assert (found.url, found.scheme, found.name, found.file) == (
        given,
        given.partition(":")[0].lower(),
        name,
        None,
    )


@pytest.mark.parametrize(
    "given",
    [
        None,
        7,
        "",
        "jammy.qcow2",
        "ftp://images.example/x",
        "gopher://images.example/x",
        "glance://7f",
        "http:///x",
        "http://images.example:0/x",
        "http://images.example:99999/x",
        "http://images.example/a b",
        "http://images.example/a\nHost: other",
        "http://[::1/x",
        "file://elsewhere/x",
        "file:relative",
        "file:///folder/",
        "file:///x?y=1",
        "file:///x%00y",
    ],
    ids=repr,
)
def test_other_addresses_are_refused_by_their_place(given: object) -> None:
    """Whatever is no such URL is a fault of the request, named by its path."""
    with pytest.raises(errors.InvalidParameter) as caught:
        download.read_source(given, PATH)
    assert caught.value.facts["path"] == PATH


def test_an_address_is_shown_without_its_secrets() -> None:
    """User, password and query may be secrets."""
    found = download.read_source("https://me:pw@images.example:8443/x.raw?sig=abc#f", PATH)
    assert found.shown == "https://images.example:8443/x.raw"


def test_a_local_file_must_really_lie_in_an_allowed_folder(tmp_path: pathlib.Path) -> None:
    """Dots and links lead nowhere else."""
    allowed, other = tmp_path / "allowed", tmp_path / "allowed-not"
    allowed.mkdir()
    other.mkdir()
    (allowed / "link").symlink_to(other / "secret")
    image = download.read_source((allowed / "x.raw").as_uri(), PATH).file
    assert image is not None
    assert download.file_within(image, [str(allowed)], PATH) == allowed / "x.raw"
    for bad in (allowed / "link", allowed / ".." / "allowed-not" / "x", other / "x"):
        with pytest.raises(errors.InvalidParameter, match="file_url_allowed_paths"):
            download.file_within(pathlib.Path(str(bad)), [str(allowed)], PATH)
    with pytest.raises(errors.InvalidParameter):
        download.file_within(image, [], PATH)


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("169.254.169.254", True),
        ("::ffff:169.254.169.254", True),
        ("64:ff9b::a9fe:a9fe", True),
        ("64:ff9b::192.0.2.7", False),
        ("fe80::1%eth0", True),
        ("192.0.2.7", False),
        ("2001:db8::1", False),
    ],
)
def test_a_blocked_network_is_told_by_address(address: str, inside: bool) -> None:
    """Also when an IPv4 address wears an IPv6 coat."""
    nets = networks.parse(["169.254.0.0/16", " fe80::/10 ", ""])
    assert (networks.containing(address, nets) is not None) is inside


@pytest.mark.parametrize(
    ("address", "blocked"),
    [
        ("169.254.169.254", True),
        ("fe80::a9fe:a9fe", True),
        ("100.100.100.200", True),
        ("::ffff:100.100.100.200", True),
        ("fd00:ec2::254", True),
        ("100.100.100.201", False),
        ("fd00:ec2::1", False),
        ("127.0.0.1", False),  # an operator who serves no images there lists it
    ],
)
def test_metadata_services_are_blocked_by_default(address: str, blocked: bool) -> None:
    nets = networks.parse(config.CONF.conductor.image_blocked_networks)
    assert (networks.containing(address, nets) is not None) is blocked


def test_an_address_written_in_the_url_is_refused_at_once() -> None:
    """Names wait until they are looked up."""
    nets = networks.parse(["169.254.0.0/16"])
    download.refuse_closed(download.read_source("http://metadata.example/x", PATH), nets, PATH)
    with pytest.raises(errors.InvalidParameter, match="image_blocked_networks"):
        download.refuse_closed(download.read_source("http://169.254.169.254/x", PATH), nets, PATH)


@pytest.fixture
def server() -> Iterator[tuple[int, list[str]]]:
    """A web server that counts what reaches it; /away leads to itself by another name."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            SEEN.append(self.headers["Authorization"])
            if self.path == "/away":
                self.send_response(302)
                self.send_header(
                    "Location", f"http://127.0.0.2:{self.headers['Host'].rpartition(':')[2]}/inside"
                )
            elif self.path == "/circle":
                self.send_response(302)
                self.send_header("Location", "/circle")
            else:
                self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    found = http.server.ThreadingHTTPServer(("", 0), Handler)
    thread = threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield found.server_port, asked
    found.shutdown()
    found.server_close()
    thread.join()


def status(url: str, blocked: list[str]) -> int:
    terms = download.Terms(
        networks.parse(blocked), download.trusted_tls("true"), 10, 10, 30, 1 << 20
    )
    with download.get(url, terms, {}) as answer:
        return answer.status


@pytest.mark.parametrize(
    "url", ["http://localhost:{}/x", "http://127.0.0.1:{}/x"], ids=["by name", "by IP"]
)
def test_nothing_is_sent_into_a_blocked_network(server: tuple[int, list[str]], url: str) -> None:
    """The connection is judged by where it leads."""
    port, asked = server
    with pytest.raises(download.FetchFailed, match="image_blocked_networks"):
        status(url.format(port), ["127.0.0.0/8", "::1/128"])
    assert asked == []


def test_a_redirection_into_a_blocked_network_is_not_followed(
    server: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first address is open, the second is not; a proxy of the environment changes nothing."""
    port, asked = server
    monkeypatch.setenv("http_proxy", f"http://127.0.0.2:{port}")
    assert status(f"http://127.0.0.1:{port}/x", ["127.0.0.2/32"]) == 200
    with pytest.raises(download.FetchFailed, match="image_blocked_networks"):
        status(f"http://127.0.0.1:{port}/away", ["127.0.0.2/32"])
    assert asked == ["/x", "/away"]


def test_a_password_in_a_url_does_not_follow_a_redirection_to_another_host(
    server: tuple[int, list[str]],
) -> None:
    """User and password of an address are for its host alone."""
    port, _ = server
    SEEN.clear()
    assert status(f"http://me:p%40w@127.0.0.1:{port}/away", []) == 200
    assert SEEN == ["Basic bWU6cEB3", None]


def test_redirections_in_a_circle_end(server: tuple[int, list[str]]) -> None:
    """Five are followed."""
    port, asked = server
    with pytest.raises(download.FetchFailed, match="redirects more than 5 times"):
        status(f"http://127.0.0.1:{port}/circle", [])
    assert asked == ["/circle"] * 6


@pytest.mark.parametrize("folder", [False, True])
def test_authorities_replaced_by_a_file_of_the_same_time_are_used(
    tmp_path: pathlib.Path, folder: bool
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    old, new = (
        certificates.write(tmp_path / name, days)[0] for name, days in (("one", 100), ("other", 9))
    )
    place = tmp_path / "place"
    place.mkdir()
    named = place / "authorities.pem"
    shutil.copy(old, named)
    said = str(place if folder else named)
    first = download.trusted_tls(said)
    assert download.trusted_tls(said) is first
    kept = os.stat(named)
    changed = tmp_path / "place.new"
    shutil.copy(new, changed)
    os.utime(changed, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    about = os.stat(place)
    os.replace(changed, named)
    os.utime(place, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert download.trusted_tls(said) is not first
    if not folder:
        wanted = ssl.PEM_cert_to_DER_cert(new.read_text())
        assert download.trusted_tls(said).get_ca_certs(binary_form=True) == [wanted]


def test_tls_with_servers_has_the_limits_of_the_options() -> None:
    assert download.trusted_tls("true").minimum_version is ssl.TLSVersion.TLSv1_2
    config.CONF.set_override("webserver_tls_minimum_version", "1.3")
    config.CONF.set_override("webserver_tls_ciphers", "ECDHE-RSA-AES128-GCM-SHA256")
    try:
        made = download.trusted_tls("true")
    finally:
        config.CONF.clear_override("webserver_tls_minimum_version")
        config.CONF.clear_override("webserver_tls_ciphers")
    assert made.minimum_version is ssl.TLSVersion.TLSv1_3
    found = {one["name"] for one in made.get_ciphers() if one["protocol"] != "TLSv1.3"}
    assert found == {"ECDHE-RSA-AES128-GCM-SHA256"}


# Checksums as operators write them.

SHA256 = hashlib.sha256(b"image").hexdigest()
SHA512 = hashlib.sha512(b"image").hexdigest()
MD5 = hashlib.md5(b"image", usedforsecurity=False).hexdigest()
CHECKSUM_PATH = "instance_info/image_checksum"


@pytest.mark.parametrize(("digits", "algorithm"), [(SHA256, "sha256"), (SHA512, "sha512")])
def test_the_kind_of_a_checksum_is_told_by_its_length(digits: str, algorithm: str) -> None:
    """Case and surrounding space do not matter."""
    found = checksums.bare(f" {digits.upper()}\n", CHECKSUM_PATH)
    assert found == checksums.Checksum(algorithm, digits)
    assert found.matches(digits.upper())
    assert not found.matches(digits[:-1] + ("0" if digits[-1] != "0" else "1"))


@pytest.mark.parametrize("digits", ["", "abc", "g" * 64, SHA256[:-2], SHA256 + "00"])
def test_invalid_checksum_is_refused(digits: str) -> None:
    """By its place."""
    with pytest.raises(errors.InvalidParameter) as caught:
        checksums.bare(digits, CHECKSUM_PATH)
    assert caught.value.facts["path"] == CHECKSUM_PATH


def test_the_algorithm_said_must_fit_the_digits() -> None:
    """A sha512 has no 64 digits."""
    assert checksums.bare(SHA256, CHECKSUM_PATH, algorithm="SHA256").algorithm == "sha256"
    with pytest.raises(errors.InvalidParameter):
        checksums.bare(SHA256, CHECKSUM_PATH, algorithm="sha512")


def test_md5_needs_the_operators_word() -> None:
    """It can be forged."""
    with pytest.raises(errors.InvalidParameter, match="forge"):
        checksums.bare(MD5, CHECKSUM_PATH)
    assert checksums.bare(MD5, CHECKSUM_PATH, md5=True).algorithm == "md5"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SHA256, SHA256),
        (f"\n{SHA256}\n\n", SHA256),
        (f"{SHA512}  other.img\n{SHA256}  jammy.img\n", SHA256),
        (f"{SHA256} *jammy.img\r\n", SHA256),
        (f"{SHA256}  ./sub/jammy.img\n", SHA256),
        (f"# comment\nSHA256 (jammy.img) = {SHA256}\n", SHA256),
        (f"SHA512(jammy.img)= {SHA512}\n", SHA512),
        (f"{SHA256}  jammy.img.asc\n", None),
        ("", None),
        ("<html>not found</html>", None),
    ],
    ids=["bare", "space", "gnu", "binary", "folder", "bsd", "openssl", "other", "none", "page"],
)
def test_a_checksum_file_is_read_by_the_name_of_the_image(text: str, found: Any) -> None:
    """A bare one is for whatever is asked."""
    assert checksums.listed(text, "jammy.img") == found


@pytest.mark.parametrize(
    ("text", "algorithm", "found"),
    [
        ("MD5 (jammy.img) = {md5}\nSHA256 (jammy.img) = {sha256}", None, SHA256),
        ("MD5 (jammy.img) = {md5}\nSHA256 (jammy.img) = {sha256}", "md5", MD5),
        ("{sha256}  jammy.img\n{sha512}  jammy.img", "sha256", SHA256),
        ("{sha256}  jammy.img\n{sha512}  jammy.img", "sha512", SHA512),
        ("{sha256}  jammy.img\n{sha512}  jammy.img", None, SHA512),
        ("SHA1(jammy.img)= {sha1}\nSHA2-256(jammy.img)= {sha256}", None, SHA256),
        ("BLAKE2b (jammy.img) = {blake}\nSHA512 (jammy.img) = {sha512}", "sha512", SHA512),
        ("SHA3-512 (jammy.img) = {blake}\nSHA-256 (jammy.img) = {sha256}", None, SHA256),
        ("SHA1 (jammy.img) = {sha1}", None, MD5 + "0" * 8),
    ],
)
def test_one_of_several_checksums_of_an_image_is_chosen(
    text: str, algorithm: str | None, found: str
) -> None:
    digits = {"md5": MD5, "sha1": MD5 + "0" * 8, "sha256": SHA256, "sha512": SHA512}
    filled = text.format(**digits, blake=hashlib.blake2b(b"image").hexdigest())
    assert checksums.listed(filled, "jammy.img", algorithm) == found


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({}, None),
        ({"image_checksum": SHA256}, (None, SHA256)),
        (
            {"image_os_hash_algo": "SHA512", "image_os_hash_value": SHA512, "image_checksum": MD5},
            ("sha512", SHA512),
        ),
    ],
    ids=["none", "checksum", "hash first"],
)
def test_an_instance_says_its_checksum_in_one_of_two_ways(info: dict[str, Any], found: Any) -> None:
    """The newer way goes first."""
    assert checksums.wanted(info) == found


@pytest.mark.parametrize(
    ("info", "path"),
    [
        ({"image_os_hash_algo": "sha256"}, "instance_info/image_os_hash_value"),
        ({"image_os_hash_value": SHA256}, "instance_info/image_os_hash_algo"),
        (
            {"image_os_hash_algo": "crc32", "image_os_hash_value": "0"},
            "instance_info/image_os_hash_algo",
        ),
        ({"image_checksum": 7}, "instance_info/image_checksum"),
        ({"image_checksum": " "}, "instance_info/image_checksum"),
    ],
    ids=["no value", "no algorithm", "crc32", "number", "blank"],
)
def test_half_a_checksum_is_refused(info: dict[str, Any], path: str) -> None:
    """The missing or wrong key is named."""
    with pytest.raises(errors.InvalidRequest) as caught:
        checksums.wanted(info)
    assert caught.value.facts["path"] == path


def test_the_digest_of_a_file(tmp_path: pathlib.Path) -> None:
    """Is that of its bytes."""
    file = tmp_path / "x"
    file.write_bytes(b"image")
    assert checksums.digest(file, "sha256") == SHA256


# What the agent is told about an image.

URL = "http://images.example/jammy.img"
PLAIN: dict[str, Any] = {"image_source": URL, "image_checksum": SHA256}


def _told(info: dict[str, Any], **more: Any) -> dict[str, Any]:
    image = images.read_image(info)
    return images.image_info(
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
    image = images.read_image(PLAIN)
    names = [
        images.image_info(image, url=URL, node_uuid="n", run=run, boot_mode="bios", stream=True)[
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
    assert told["ephemeral_format"] == "ext4"
    config.CONF.set_override("default_ephemeral_format", "xfs", "pxe")
    try:
        assert _told(info)["ephemeral_format"] == "xfs"
        assert _told({**info, "ephemeral_format": "ext3"})["ephemeral_format"] == "ext3"
    finally:
        config.CONF.clear_override("default_ephemeral_format", "pxe")


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
        ({"image_source": "0c4a1b5e-7f1f-4c2e-9d57-0a5a4d1f8b11"}, "image_source"),
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
        "uuid",
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
        images.read_image(info)
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
    assert images.read_image(info).local is local


def test_md5_is_the_operators_choice() -> None:
    """Then it is told as it is."""
    image = images.read_image({**PLAIN, "image_checksum": MD5}, md5=True)
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
        images.check_hints({"root_device": hints}, "properties")
    assert caught.value.facts["path"] == f"properties/{path}"


def test_hints_that_agents_know_are_taken() -> None:
    """Operators and sizes stay text; none at all is fine."""
    images.check_hints({}, "properties")
    hints = {"size": "> 100", "rotational": "no", "name": "s== /dev/sda", "serial": "== 7"}
    images.check_hints({"root_device": hints}, "properties")


# Configuration drives from JSON.

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
