"""Registries of images: logins, manifests, layers, faults, and what they must not get."""

from __future__ import annotations

import gzip
import hashlib
import json
import pathlib
import random
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zstandard

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.options import Configuration
from ironic_lite.images import cache, local_files, registry
from tests.emulators import registry as emulator
from tests.emulators.redfish import certificate
from tests.emulators.registry import PASSWORD, Registry

RAW, ARM, QCOW2 = b"raw" * 1000, b"arm" * 1000, b"qcow" * 1000
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def conf(tmp_path: pathlib.Path) -> Iterator[Configuration]:
    """Our options; registries may speak plain http."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    config.CONF.set_override("state_path", str(tmp_path / "state"))
    config.CONF.set_override("permit_fallback_to_http_transport", True, "oci")
    yield config.CONF
    config.CONF.clear_override("state_path")
    for name in ("permit_fallback_to_http_transport", "secure_cdn_registries", "verify_ca"):
        config.CONF.clear_override(name, "oci")
    for name in ("image_blocked_networks", "image_cache_size"):
        config.CONF.clear_override(name, "conductor")


@pytest.fixture
def known() -> Iterator[Registry]:
    """A registry with token login and images for two architectures."""
    with emulator.serve() as found:
        found.put_index(
            {("amd64", "qcow2"): QCOW2, ("amd64", "raw"): RAW, ("arm64", "applehv"): ARM}
        )
        yield found


def client(
    about: Registry, at: str = "1", secret: str | None = "", **more: Any
) -> registry.RegistryClient:
    reference = registry.read_reference(about.source(tag=at), "place")
    given = {"the place": secret or about.secret} if secret is not None else {}
    return registry.RegistryClient(reference, registry.find_login(reference, given), **more)


def fetch(about: Registry, made: registry.RegistryClient, layer: registry.Layer) -> bytes:
    """Return a layer as the conductor gets it."""
    header = made.authorize()
    checksum = registry.digest_checksum(layer.digest)
    access = registry.layer_access(header, layer)
    url = made.blob_url(layer.digest)
    return cache.fetch(url, "place", checksum=checksum, access=access).read_bytes()


def refusal(about: Registry, *, arch: str = "x86_64", **more: Any) -> str:
    with pytest.raises((errors.DownloadFailed, errors.ImageUnusable)) as caught:
        client(about, **more).resolve(arch, served=False)
    text = str(caught.value)
    assert about.address in text
    assert PASSWORD not in text
    assert not [token for token in about.tokens if token in text]
    return text


def test_the_image_of_the_architecture_is_found_with_a_token(known: Registry) -> None:
    made = client(known)
    found = made.resolve("x86_64", served=False)
    assert (found.digest, found.disktype) == (emulator.digest(RAW), "raw")
    assert not made.basic
    assert client(known).resolve("aarch64", served=False).digest == emulator.digest(ARM)
    assert client(known).resolve("x86_64", served=True).digest == emulator.digest(QCOW2)
    # Without being asked, no login is sent, and the token server alone gets it.
    assert known.headers[0] is None
    basic = [
        path
        for path, how in zip(known.asked, known.headers, strict=True)
        if how and how[:5] == "Basic"
    ]
    assert {path.partition("?")[0] for path in basic} == {"/token"}
    assert set(known.tokens.values()) == {"repository:team/image:pull"}
    assert len(basic) == 1  # the token is kept in memory


def test_no_image_fits_a_third_architecture(known: Registry) -> None:
    text = refusal(known, arch="ppc64le")
    assert "no disk image for ppc64le; it has amd64/qcow2, amd64/raw, arm64/applehv" in text


def test_a_moved_tag_does_not_change_what_was_found(known: Registry) -> None:
    found = client(known).resolve("x86_64", served=False)
    known.put_index({("amd64", "raw"): b"other"})
    assert found.manifest.at.startswith("sha256:")
    pinned = registry.RegistryClient(
        found.manifest, registry.find_login(found.manifest, {"p": known.secret})
    )
    assert fetch(known, pinned, found) == RAW
    moved = client(known).resolve("x86_64", served=False)
    assert moved.digest == emulator.digest(b"other")


def test_a_manifest_without_an_index_is_an_image(known: Registry) -> None:
    known.put_disk(RAW, tag="one", annotations={"disktype": "raw"})
    assert client(known, "one").resolve("aarch64", served=False).format == "raw"
    made = known.put_manifest(
        "team/image",
        None,
        {
            "mediaType": emulator.MANIFEST,
            "config": known.put_blob(b"{}", emulator.EMPTY),
            "layers": [known.put_blob(QCOW2, "application/octet-stream")],
        },
        "sha512",
    )
    reference = registry.Reference(known.address, "team/image", made["digest"])
    login = registry.find_login(reference, {"p": known.secret})
    assert registry.RegistryClient(reference, login).resolve("", served=False).format is None


def test_a_registry_without_a_login_gets_none(known: Registry) -> None:
    known.login = None
    made = client(known)
    assert made.resolve("x86_64", served=False).format == "raw"
    assert made.authorize() is None
    assert set(known.headers) == {None}


def test_a_basic_registry_gets_the_login_after_it_has_asked(known: Registry) -> None:
    known.login = "basic"
    made = client(known)
    found = made.resolve("x86_64", served=True)
    assert found.basic
    assert known.headers[0] is None
    assert fetch(known, made, found) == QCOW2


@pytest.mark.parametrize("login", ["token", "basic"])
def test_a_wrong_or_missing_login_is_named_by_its_place(known: Registry, login: str) -> None:
    known.login = login
    assert "refuses the login of the place (401)" in refusal(known, secret="robot:wrong")
    assert "set instance_info/image_pull_secret" in refusal(known, secret=None)


def test_faults_have_the_status_and_code_of_the_registry(known: Registry) -> None:
    text = refusal(known, at="2")
    assert f"oci://{known.address}/team/image:2" in text
    assert "answers 404 MANIFEST_UNKNOWN; its first tags are 1" in text
    known.denied = True
    assert "answers 403 DENIED" in refusal(known)


def test_at_most_ten_tags_are_asked_for_and_named(known: Registry) -> None:
    for number in range(100, 130):
        known.put_disk(RAW, tag=str(number))
    text = refusal(known, at="absent")
    assert text.partition("tags are ")[2].partition(". ")[0].count(",") == 9
    assert known.asked[-1] == "/v2/team/image/tags/list?n=10"


def test_a_limit_of_requests_is_waited_for_five_times(known: Registry) -> None:
    pauses: list[float] = []
    known.limited = 3
    client(known, pause=pauses.append).resolve("x86_64", served=False)
    assert pauses == [1.0] * 3
    known.limited = 100
    assert "429 TOOMANYREQUESTS" in refusal(known, pause=pauses.append)
    assert len(pauses) == 8
    assert "429" in refusal(known)


def test_a_limited_server_of_tokens_is_waited_for(known: Registry) -> None:
    pauses: list[float] = []
    known.limited_tokens = 2
    client(known, pause=pauses.append).resolve("x86_64", served=False)
    assert pauses == [1.0] * 2


def test_all_requests_together_end_in_time(known: Registry) -> None:
    made = client(known, seconds=0.0)
    with pytest.raises(errors.DownloadFailed, match="take too long together"):
        made.resolve("x86_64", served=False)
    assert known.asked == []


def test_an_expired_token_is_renewed_once(known: Registry) -> None:
    client(known).resolve("x86_64", served=False)
    known.tokens.clear()
    client(known).resolve("x86_64", served=False)
    assert len(known.tokens) == 1
    known.expires = 0
    client(known).authorize()
    first = len(known.tokens)
    client(known).resolve("x86_64", served=False)
    assert len(known.tokens) > first  # one that has no time left is not kept


def test_a_token_is_not_used_for_another_login_or_repository(known: Registry) -> None:
    client(known).resolve("x86_64", served=False)
    before = len(known.tokens)
    refusal(known, secret="robot:other")
    known.put_disk(RAW, repository="team/other")
    reference = registry.read_reference(known.source("team/other"), "p")
    other = registry.RegistryClient(reference, registry.find_login(reference, {"p": known.secret}))
    other.resolve("", served=False)
    assert len(known.tokens) == before + 1
    assert list(known.tokens.values())[-1] == "repository:team/other:pull"


@pytest.mark.parametrize(
    "challenge",
    [
        *("Digest realm=x", "", "Bearer", 'Bearer realm="ftp://x/"', 'Bearer realm="/token"'),
        'Bearer realm="https://[x/"',
    ],
)
def test_an_unknown_challenge_gets_no_login(known: Registry, challenge: str) -> None:
    known.challenge = challenge or "-"
    refusal(known)
    assert set(known.headers) == {None}


def test_another_content_than_the_digest_is_refused(known: Registry) -> None:
    for (name, at), (media, content) in list(known.manifests.items()):
        if at.startswith("sha256:"):
            known.manifests[name, at] = media, content.replace(b'"size": 3000', b'"size": 3001')
    assert "its sha256 is" in refusal(known)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "is not JSON"),
        (b"not json", "is not JSON"),
        (json.dumps({"mediaType": "x", "manifests": [{}] * 1001}).encode(), "more than 1000"),
        (json.dumps({"mediaType": "x", "manifests": 7}).encode(), "it has nothing"),
        (b" " * (4 * MIB + 1), "larger than 4 MiB"),
    ],
)
def test_a_hostile_manifest_is_refused(known: Registry, body: bytes, reason: str) -> None:
    known.manifests["team/image", "1"] = emulator.INDEX, body
    assert reason in refusal(known)


def test_a_container_is_refused_with_the_way_to_go(known: Registry) -> None:
    layers = [known.put_blob(b"x" * n, "application/vnd.oci.image.layer.v1.tar") for n in (1, 2)]
    document = {"mediaType": emulator.MANIFEST, "config": {}, "layers": layers}
    known.put_manifest("team/image", "boot", document)
    text = refusal(known, at="boot")
    assert "bootc is not built" in text
    assert "bootc-image-builder" in text


# -- transport ---------------------------------------------------------------------------------


def test_plain_http_needs_the_permission_of_the_operator(
    known: Registry, conf: Configuration
) -> None:
    conf.set_override("permit_fallback_to_http_transport", False, "oci")
    assert "permit_fallback_to_http_transport is false" in refusal(known)
    assert known.asked == []


def test_a_failing_certificate_is_no_reason_for_plain_http(
    tmp_path: pathlib.Path, conf: Configuration
) -> None:
    pem, key = certificate(tmp_path)
    with emulator.serve(certificate=(pem, key)) as known:
        known.put_disk(RAW)
        assert "certificate" in refusal(known)
        assert known.asked == []
        conf.set_override("verify_ca", str(pem), "oci")
        made = client(known)
        found = made.resolve("x86_64", served=True)
        assert made.blob_url(found.digest).startswith("https://")
        assert fetch(known, made, found) == RAW


def test_a_server_of_tokens_without_tls_gets_no_login_of_an_https_registry(
    tmp_path: pathlib.Path, conf: Configuration
) -> None:
    pem, key = certificate(tmp_path)
    conf.set_override("verify_ca", str(pem), "oci")
    with emulator.serve() as plain, emulator.serve(certificate=(pem, key)) as known:
        known.put_disk(RAW)
        known.realm = f"{plain.url}/token"
        assert "no https address for tokens" in refusal(known)
        assert plain.asked == []


def test_a_blocked_network_is_not_asked(known: Registry, conf: Configuration) -> None:
    conf.set_override("image_blocked_networks", ["127.0.0.0/8"], "conductor")
    assert "image_blocked_networks" in refusal(known)
    assert known.asked == []


def test_a_redirected_layer_is_fetched_without_the_token(known: Registry) -> None:
    with emulator.serve(None) as cdn:
        cdn.blobs = known.blobs
        known.cdn = f"{cdn.url}/v2/team/image/blobs/"
        made = client(known)
        found = made.resolve("x86_64", served=True)
        assert fetch(known, made, found) == QCOW2
        assert cdn.headers == [None]


def test_a_silent_registry_ends_in_time() -> None:
    class Silent(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            ended.wait(20)

    ended = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        about = Registry(None)
        about.address = f"127.0.0.1:{server.server_address[1]}"
        try:
            assert "no connection within" in refusal(about, seconds=0.3)
        finally:
            ended.set()
            server.shutdown()
            thread.join()


# -- layers ------------------------------------------------------------------------------------

PACKS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("packing", PACKS)
def test_a_packed_layer_is_unpacked_while_it_arrives(known: Registry, packing: str) -> None:
    packed = PACKS[packing](RAW * 500)
    known.put_disk(packed, tag="packed", media=f"application/{packing}", title=f"d.raw.{packing}")
    made = client(known, "packed")
    found = made.resolve("", served=True)
    assert found.packed == packing
    assert fetch(known, made, found) == RAW * 500
    blobs = sum("/blobs/" in path for path in known.asked)
    assert fetch(known, made, found) == RAW * 500
    assert sum("/blobs/" in path for path in known.asked) == blobs + 1  # asked, but not unpacked


@pytest.mark.parametrize("packing", PACKS)
def test_several_frames_are_unpacked_to_their_end(known: Registry, packing: str) -> None:
    packed = PACKS[packing](RAW) + PACKS[packing](ARM)
    known.put_disk(packed, tag="packed", media=f"application/{packing}", title="d.raw")
    made = client(known, "packed")
    assert fetch(known, made, made.resolve("", served=True)) == RAW + ARM


def test_zeros_behind_a_packed_layer_are_skipped(known: Registry) -> None:
    known.put_disk(gzip.compress(RAW) + bytes(5000), tag="p", media="application/gzip")
    made = client(known, "p")
    assert fetch(known, made, made.resolve("", served=True)) == RAW


@pytest.mark.parametrize("lacks", [1, 9, 40])
@pytest.mark.parametrize("packing", PACKS)
def test_a_layer_that_was_cut_off_before_its_push_is_refused(
    known: Registry, packing: str, lacks: int
) -> None:
    packed = PACKS[packing](RAW) + PACKS[packing](random.Random(lacks).randbytes(5000))[:-lacks]
    known.put_disk(packed, tag="p", media=f"application/{packing}", title="d.raw")
    made = client(known, "p")
    found = made.resolve("", served=True)
    with pytest.raises(errors.ImageUnusable, match=f"{found.digest}.* cut off"):
        fetch(known, made, found)
    assert not list(local_files.downloads().glob("*"))


@pytest.mark.parametrize("packing", PACKS)
def test_a_layer_that_unpacks_beyond_the_limit_is_refused(
    known: Registry, packing: str, conf: Configuration
) -> None:
    conf.set_override("image_cache_size", 2, "conductor")
    packed = PACKS[packing](bytes(256 * MIB))
    assert len(packed) < MIB
    known.put_disk(packed, tag="bomb", media=f"application/{packing}", title="d.raw")
    made = client(known, "bomb")
    with pytest.raises(errors.DownloadFailed, match="larger than 2 MiB"):
        fetch(known, made, made.resolve("", served=True))
    assert not list(local_files.downloads().glob("*"))


@pytest.mark.parametrize("packing", PACKS)
def test_a_layer_that_is_not_packed_as_said_is_refused(known: Registry, packing: str) -> None:
    known.put_disk(b"plain" * 100, tag="p", media=f"application/{packing}", title="d.raw")
    made = client(known, "p")
    with pytest.raises(errors.ImageUnusable, match=f"not valid {packing}"):
        fetch(known, made, made.resolve("", served=True))


def test_a_changed_packed_layer_is_refused(known: Registry) -> None:
    packed = gzip.compress(RAW)
    known.put_disk(packed, tag="p", media="application/gzip", title="d.raw")
    made = client(known, "p")
    found = made.resolve("", served=True)
    known.blobs[found.digest] = gzip.compress(ARM)
    with pytest.raises(errors.ImageUnusable, match=f"not {hashlib.sha256(packed).hexdigest()}"):
        fetch(known, made, found)
    assert not list(local_files.downloads().glob("*"))
