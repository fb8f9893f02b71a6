"""Images of registries: references, challenges, logins, and the choice of a layer."""

from __future__ import annotations

import base64
import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.options import Configuration
from ironic_lite.images import download, registry
from ironic_lite.images.registry import Entry, Reference

HEX = "ab" * 32
PLACE = "instance_info/image_source"
EMPTY = {"mediaType": "application/vnd.oci.empty.v1+json"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("oci://r.example.org/a", ("r.example.org", "a", "latest")),
        ("OCI://R.example.org/a/b-c/d_e:1.0", ("r.example.org", "a/b-c/d_e", "1.0")),
        ("oci://127.0.0.1:5000/team/image:1", ("127.0.0.1:5000", "team/image", "1")),
        ("oci://[fd00::1]:5000/a__b:_x", ("[fd00::1]:5000", "a__b", "_x")),
        (f"oci://r/a@sha256:{HEX}", ("r", "a", f"sha256:{HEX}")),
        (f"oci://r/a@sha512:{HEX}{HEX}", ("r", "a", f"sha512:{HEX}{HEX}")),
        (f"oci://r/{'a' * 255}:{'t' * 128}", ("r", "a" * 255, "t" * 128)),
    ],
)
def test_references_are_read(given: str, found: tuple[str, str, str]) -> None:
    assert registry.is_reference(given)
    assert registry.read_reference(given, PLACE) == Reference(*found)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("oci://me:secret@r/a", "use image_pull_secret"),
        ("oci://me@r/a:1", "use image_pull_secret"),
        ("oci:///a", "needs a host"),
        ("oci://r:0/a", "port from 1 to 65535"),
        ("oci://r:65536/a", "port from 1 to 65535"),
        ("oci://[1:2]/a", "needs a host"),
        ("oci://[::1/a", "needs a host"),
        (f"oci://r:{'9' * 5000}/a", "needs a host"),
        ("oci://r\n/a", "needs a host"),
        ("oci://r", "names no repository"),
        ("oci://r/", "names no repository"),
        ("oci://r/A", "names no repository"),
        ("oci://r/a//b", "names no repository"),
        ("oci://r/../x", "names no repository"),
        ("oci://r/a?x=1", "names no repository"),
        (f"oci://r/{'a' * 256}", "names no repository"),
        ("oci://r/a:", "invalid tag"),
        ("oci://r/a:b/c", "invalid tag"),
        (f"oci://r/a:{'t' * 129}", "invalid tag"),
        ("oci://r/a@md5:abc", "@sha256:"),
        (f"oci://r/a@sha256:{HEX}0", "@sha256:"),
        (f"oci://r/a@sha256:{HEX.upper()}", "@sha256:"),
        (f"oci://r/a:1@sha256:{HEX}", "not with both"),
    ],
)
def test_wrong_references_are_refused_with_their_place(given: str, reason: str) -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        registry.read_reference(given, PLACE)
    assert str(caught.value).startswith(f"{PLACE}: ")
    assert reason in str(caught.value)
    assert "secret@" not in str(caught.value)


def test_other_addresses_are_no_references() -> None:
    for given in ("http://r/a", "oci:/r/a", "", None, 3):
        assert not registry.is_reference(given)
    with pytest.raises(errors.InvalidParameter, match="oci:// is for instance_info/image_source"):
        download.read_source("oci://r/a", "instance_info/boot_iso")


def test_the_hub_of_docker_is_asked_at_its_own_host() -> None:
    found = registry.read_reference("oci://docker.io/team/image", PLACE)
    assert found.url("https", "tags/list") == (
        "https://registry-1.docker.io/v2/team/image/tags/list"
    )
    assert found.shown == "oci://docker.io/team/image:latest"


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (
            'Bearer realm="https://a/t",service="s"',
            {"bearer": {"realm": "https://a/t", "service": "s"}},
        ),
        ('bearer  realm = "a,\\"b" , x=1', {"bearer": {"realm": 'a,"b', "x": "1"}}),
        ('Basic realm="x", Bearer realm="y"', {"basic": {"realm": "x"}, "bearer": {"realm": "y"}}),
        ("Negotiate, Basic realm=x", {"negotiate": {}, "basic": {"realm": "x"}}),
        ('Bearer realm="a",realm="b"', {"bearer": {"realm": "a"}}),
        ("", {}),
        ("=,=,\x00", {}),
    ],
)
def test_challenges_are_read(header: str, found: dict[str, Any]) -> None:
    known = registry.read_challenges(header)
    assert {name: known[name] for name in found} == found


@pytest.mark.parametrize("text", ["a" * 100_000, "a=" * 50_000, 'Bearer a="' + "\\" * 100_000])
def test_a_hostile_challenge_costs_little(text: str) -> None:
    begun = time.process_time()
    registry.read_challenges(text)
    assert time.process_time() - begun < 2


# -- the choice --------------------------------------------------------------------------------

ALL = [
    Entry("1", "amd64", "qcow2"),
    Entry("2", "amd64", "raw"),
    Entry("3", "arm64", "raw"),
    Entry("4", "x86_64", "applehv"),
    Entry("5", "amd64", "hyperv"),
    Entry("6", "amd64", ""),
    Entry("7", "", "qemu"),
]


@pytest.mark.parametrize(
    ("arch", "served", "found"),
    [
        ("x86_64", False, "24176"),
        ("x86_64", True, "17246"),
        ("amd64", False, "24176"),
        ("aarch64", False, "37"),
        ("arm64", False, "37"),
        ("ppc64le", False, "7"),
        ("", True, "172346"),
    ],
)
def test_entries_are_chosen_by_architecture_and_then_by_type(
    arch: str, served: bool, found: str
) -> None:
    chosen = registry.choose(ALL, arch, served=served)
    assert "".join(one.digest for one in chosen) == found


def test_broken_entries_of_an_index_are_left_out() -> None:
    document = {
        "manifests": [
            "no object",
            {"digest": "sha256:1"},
            {"digest": f"sha256:{HEX}", "platform": [], "annotations": {"disktype": 7}},
            {"digest": f"sha256:{HEX}", "platform": {"architecture": "arm64"}},
        ]
    }
    digest = f"sha256:{HEX}"
    assert registry.read_entries(document) == [Entry(digest, "", ""), Entry(digest, "arm64", "")]


def layer(**values: Any) -> dict[str, Any]:
    made = {"mediaType": "application/octet-stream", "digest": f"sha256:{HEX}", "size": 3}
    return {**made, **values}


def read(*layers: Any, disktype: str = "", **more: Any) -> registry.Layer | None:
    document = {"config": EMPTY, "layers": list(layers), **more}
    return registry.read_layer(document, Reference("r", "a", f"sha256:{HEX}"), disktype)


def test_a_manifest_with_one_layer_is_a_disk() -> None:
    found = read(layer(), disktype="applehv")
    assert found is not None
    assert (found.format, found.packed, found.size) == ("raw", "", 3)
    assert registry.Layer.of_note(json.loads(json.dumps(found.as_note()))) == found
    assert set(found.as_note()) == {"manifest", "layer", "size", "disktype"}


@pytest.mark.parametrize(
    ("media", "packed"),
    [
        ("application/zstd", "zstd"),
        ("application/vnd.oci.image.layer.v1.tar+gzip", "gzip"),
        ("application/x-qemu-disk", ""),
        (None, ""),
    ],
)
def test_the_type_of_a_layer_says_how_it_is_packed(media: str | None, packed: str) -> None:
    found = read(layer(mediaType=media))
    assert found is not None
    assert found.packed == packed


def test_a_container_is_none() -> None:
    container = {"mediaType": "application/vnd.oci.image.config.v1+json"}
    assert read(layer(), layer()) is None
    assert read() is None
    assert read(layer(), config=container) is None
    assert read(layer(), config=container, disktype="raw") is not None
    assert read(layer(), config=container, artifactType="application/x.disk") is not None


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (layer(mediaType="application/x-xz"), "compressed with xz"),
        (layer(mediaType="application/vnd.x+bzip2"), "compressed with bzip2"),
        (layer(annotations={"org.opencontainers.image.title": "d.raw.XZ"}), "compressed file"),
        (layer(digest="md5:1"), "without a digest or size"),
        (layer(size=-1), "without a digest or size"),
        (layer(size=0), "without a digest or size"),
        (layer(size=True), "without a digest or size"),
        (layer(size=None), "without a digest or size"),
    ],
)
def test_unusable_layers_are_refused(one: dict[str, Any], reason: str) -> None:
    with pytest.raises(errors.ImageUnusable, match=reason):
        read(one)


# -- logins ------------------------------------------------------------------------------------


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> Iterator[Configuration]:
    config.CONF([], default_config_files=[], default_config_dirs=[])
    config.CONF.set_override("authentication_config", str(tmp_path / "oci.json"), "oci")
    yield config.CONF
    config.CONF.clear_override("authentication_config", "oci")
    for name in ("strategy", "hosts", "permit_unknown_hosts"):
        config.CONF.clear_override(f"image_server_auth_{name}", "deploy")
    for name in ("image_server_user", "image_server_password"):
        config.CONF.clear_override(name, "deploy")


def auths(conf: Configuration, **known: str) -> None:
    file = pathlib.Path(str(conf.oci.authentication_config))
    content = {"auths": {name: {"auth": value} for name, value in known.items()}}
    file.write_text(json.dumps(content))


def login(host: str, **given: str) -> tuple[str, str, str] | None:
    found = registry.find_login(Reference(host, "a", "1"), given)
    return None if found is None else (found.user, found.password, found.place)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_secret_of_the_node_goes_before_options(conf: Configuration) -> None:
    auths(conf, r=encoded("f:g"))
    assert login("r", place="me:p:w") == ("me", "p:w", "place")
    assert login("r", place="token") == ("", "token", "place")
    assert login("r") == ("f", "g", "[oci]authentication_config")


def test_the_file_of_logins_is_read_by_host_and_port(conf: Configuration) -> None:
    auths(
        conf,
        **{
            "r:5000": encoded("five:thousand"),
            "r": encoded("any:port"),
            "t": "a-token-that-is-no-base64!",
            "index.docker.io": encoded("old:hub"),
        },
    )
    assert login("r:5000") == ("five", "thousand", "[oci]authentication_config")
    assert login("r:6000") == ("any", "port", "[oci]authentication_config")
    assert login("t") == ("", "a-token-that-is-no-base64!", "[oci]authentication_config")
    assert login("docker.io") == ("old", "hub", "[oci]authentication_config")
    assert login("other") is None
    auths(conf, **{"https://index.docker.io/v1/": encoded("v:1")})
    assert login("docker.io") == ("v", "1", "[oci]authentication_config")


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"auths": 1}', '{"auths": {"r": "x"}}', "[" * 100_000, " " * 2**20 + "{}"],
)
def test_a_broken_file_of_logins_is_named_but_not_quoted(conf: Configuration, content: str) -> None:
    file = pathlib.Path(str(conf.oci.authentication_config))
    file.write_text(content)
    with pytest.raises(errors.LocalFileError) as caught:
        login("r")
    assert str(file) in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_missing_file_of_logins_is_named(conf: Configuration) -> None:
    with pytest.raises(errors.LocalFileError, match=r"\[oci\]authentication_config"):
        login("r")


def test_the_login_of_image_servers_goes_to_their_hosts_only(conf: Configuration) -> None:
    auths(conf)
    conf.set_override("image_server_auth_strategy", "http_basic", "deploy")
    conf.set_override("image_server_user", "site", "deploy")
    conf.set_override("image_server_password", "word", "deploy")
    conf.set_override("image_server_auth_hosts", ["r.example.org", ".below.org"], "deploy")
    known = ("site", "word", "[deploy]image_server_user")
    assert login("r.example.org:5000") == known
    assert login("a.below.org") == known
    for host in ("below.org", "xbelow.org", "r.example.org.evil.org", "evil.org"):
        assert login(host) is None
    conf.set_override("image_server_auth_permit_unknown_hosts", True, "deploy")
    assert login("evil.org") == known


@pytest.mark.parametrize("value", ["a\nb", "x" * 16385, "a\0"])
def test_a_secret_is_one_line_of_text(value: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        registry.read_secret(value)
    assert "xxxx" not in str(caught.value)


def test_redirections_carry_a_login_to_trusted_hosts_only() -> None:
    terms = download.Terms((), download.trusted_tls("false"), 1, 1, 1, 1, ["docker.io", ""])
    assert terms.trusts("https://docker.io/x")
    assert terms.trusts("https://cdn.Docker.io:443/x")
    for url in (
        "http://docker.io/x",
        "https://evildocker.io",
        "https://docker.io.evil/",
        "https:///",
    ):
        assert not terms.trusts(url)
