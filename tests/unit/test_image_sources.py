"""Where images may come from."""

import http.server
import os
import pathlib
import shutil
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config, networks
from ironic_lite.images import reach, sources
from tests.support import certificates

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
    found = sources.read(given, PATH)
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
        sources.read(given, PATH)
    assert caught.value.facts["path"] == PATH


def test_an_address_is_shown_without_its_secrets() -> None:
    """User, password and query may be secrets."""
    found = sources.read("https://me:pw@images.example:8443/x.raw?sig=abc#f", PATH)
    assert found.shown == "https://images.example:8443/x.raw"


def test_a_local_file_must_really_lie_in_an_allowed_folder(tmp_path: pathlib.Path) -> None:
    """Dots and links lead nowhere else."""
    allowed, other = tmp_path / "allowed", tmp_path / "allowed-not"
    allowed.mkdir()
    other.mkdir()
    (allowed / "link").symlink_to(other / "secret")
    image = sources.read((allowed / "x.raw").as_uri(), PATH).file
    assert image is not None
    assert sources.within(image, [str(allowed)], PATH) == allowed / "x.raw"
    for bad in (allowed / "link", allowed / ".." / "allowed-not" / "x", other / "x"):
        with pytest.raises(errors.InvalidParameter, match="file_url_allowed_paths"):
            sources.within(pathlib.Path(str(bad)), [str(allowed)], PATH)
    with pytest.raises(errors.InvalidParameter):
        sources.within(image, [], PATH)


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
    sources.refuse_closed(sources.read("http://metadata.example/x", PATH), nets, PATH)
    with pytest.raises(errors.InvalidParameter, match="image_blocked_networks"):
        sources.refuse_closed(sources.read("http://169.254.169.254/x", PATH), nets, PATH)


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
    terms = reach.Terms(networks.parse(blocked), reach.trusted("true"), 10, 10, 30, 1 << 20)
    with reach.get(url, terms, {}) as answer:
        return answer.status


@pytest.mark.parametrize(
    "url", ["http://localhost:{}/x", "http://127.0.0.1:{}/x"], ids=["by name", "by IP"]
)
def test_nothing_is_sent_into_a_blocked_network(server: tuple[int, list[str]], url: str) -> None:
    """The connection is judged by where it leads."""
    port, asked = server
    with pytest.raises(reach.FetchFailed, match="image_blocked_networks"):
        status(url.format(port), ["127.0.0.0/8", "::1/128"])
    assert asked == []


def test_a_redirection_into_a_blocked_network_is_not_followed(
    server: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first address is open, the second is not; a proxy of the environment changes nothing."""
    port, asked = server
    monkeypatch.setenv("http_proxy", f"http://127.0.0.2:{port}")
    assert status(f"http://127.0.0.1:{port}/x", ["127.0.0.2/32"]) == 200
    with pytest.raises(reach.FetchFailed, match="image_blocked_networks"):
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
    with pytest.raises(reach.FetchFailed, match="redirects more than 5 times"):
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
    first = reach.trusted(said)
    assert reach.trusted(said) is first
    kept = os.stat(named)
    changed = tmp_path / "place.new"
    shutil.copy(new, changed)
    os.utime(changed, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    about = os.stat(place)
    os.replace(changed, named)
    os.utime(place, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert reach.trusted(said) is not first
    if not folder:
        wanted = ssl.PEM_cert_to_DER_cert(new.read_text())
        assert reach.trusted(said).get_ca_certs(binary_form=True) == [wanted]
