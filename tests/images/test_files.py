"""Files handed out and fetched: names, whole files only, and the conductor's own file server."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import itertools
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from ironic_lite import errors
from ironic_lite.conductor import fileserver, service
from ironic_lite.core import certificate_files, config, masking
from ironic_lite.images import cache, checksums, configdrive, iso, published, verification
from tests.emulators import images
from tests.emulators.redfish import certificate
from tests.support import certificates
from tests.support import service as services

CONTENT = bytes(range(256)) * 512
CONNECTIONS = 8


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """``[deploy]http_root`` of this test."""
    folder = tmp_path / "http"
    config.CONF.set_override("http_root", str(folder), group="deploy")
    config.CONF.set_override("state_path", str(tmp_path / "state"))
    yield folder
    for name in ("http_root", "http_url", "external_http_url", "http_port", "http_host"):
        config.CONF.clear_override(name, group="deploy")
    config.CONF.clear_override("state_path")


@pytest.fixture
def server(root: pathlib.Path) -> Iterator[str]:
    """The address of a running server of ``root``."""
    running = fileserver.FileServer("127.0.0.1", 0, CONNECTIONS)
    running.start()
    yield f"http://127.0.0.1:{running.port}"
    running.stop()


# -- the server -----------------------------------------------------------------------------------


def test_a_file_is_given_whole_and_in_parts(root: pathlib.Path, server: str) -> None:
    published.reached(root / "media")
    (root / "media/a.iso").write_bytes(CONTENT)
    url = f"{server}/media/a.iso"
    whole = requests.get(url, timeout=10)
    assert (whole.status_code, whole.content) == (200, CONTENT)
    assert whole.headers["Accept-Ranges"] == "bytes"
    part = requests.get(url, headers={"Range": "bytes=1000-1999"}, timeout=10)
    assert (part.status_code, part.content) == (206, CONTENT[1000:2000])
    assert part.headers["Content-Range"] == f"bytes 1000-1999/{len(CONTENT)}"
    beyond = requests.get(url, headers={"Range": f"bytes={len(CONTENT)}-"}, timeout=10)
    assert beyond.status_code == 416
    head = requests.head(url, timeout=10)
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(len(CONTENT)))
    same = requests.get(url, headers={"If-None-Match": whole.headers["ETag"]}, timeout=10)
    assert same.status_code == 304


def test_head_and_body_are_of_one_version_of_a_file(root: pathlib.Path, server: str) -> None:
    """However often the file is replaced by a shorter or longer one."""
    over = threading.Event()

    def replace() -> None:
        for number in itertools.cycle(range(1, 60)):
            published.write(root / "a", b"%02d" % number * 500 * number)
            if over.is_set():
                return

    published.write(root / "a", b"01" * 500)
    address = server.removeprefix("http://")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        writing = pool.submit(replace)
        try:
            with contextlib.closing(http.client.HTTPConnection(address, timeout=30)) as client:
                for turn in range(600):
                    wish = {"Range": "bytes=0-"} if turn % 2 else {}
                    client.request("GET", "/a", headers=wish)
                    answer = client.getresponse()
                    body = answer.read()  # of the announced length
                    number = int(body[:2])
                    assert body == b"%02d" % number * 500 * number
                    if wish:
                        whole = f"bytes 0-{len(body) - 1}/{len(body)}"
                        assert answer.headers["Content-Range"] == whole
        finally:
            over.set()
        writing.result()


def test_link_that_is_exchanged_all_the_time_leads_nowhere_else(
    root: pathlib.Path, server: str
) -> None:
    """A folder is replaced by a link to a folder outside between the check and the opening."""
    over = threading.Event()
    outside = root.parent / "outside"
    published.write(root / "folder/a", b"public")
    outside.mkdir()
    (outside / "a").write_bytes(b"secret")
    (root / "other").symlink_to(outside)

    def exchange() -> None:
        while not over.is_set():
            for one, two in (("folder", "kept"), ("other", "folder"), ("folder", "other")):
                (root / one).rename(root / two)
            (root / "kept").rename(root / "folder")

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        going = pool.submit(exchange)
        try:
            with requests.Session() as session:
                bodies = {session.get(f"{server}/folder/a", timeout=30).content for _ in range(600)}
        finally:
            over.set()
        going.result()
    assert bodies <= {b"", b"public"}


def test_one_connection_serves_many_parts(root: pathlib.Path, server: str) -> None:
    published.reached(root)
    (root / "a.iso").write_bytes(CONTENT)
    with requests.Session() as session:
        for start in range(0, 40_000, 8_000):
            wanted = {"Range": f"bytes={start}-{start + 9}"}
            answer = session.get(f"{server}/a.iso", headers=wanted, timeout=10)
            assert answer.content == CONTENT[start : start + 10]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/media",
        "/media/",
        "/../outside",
        "/media/../../outside",
        "/%2e%2e/outside",
        "/link",
        "/.hidden",
        "/media/.new-1",
        "/a%00b",
        "//outside",
        "/media/%ff",
        "//[::1?://",
        "/no",
    ],
)
def test_file_outside_the_public_folder_is_404(root: pathlib.Path, server: str, path: str) -> None:
    published.reached(root / "media")
    (root.parent / "outside").write_bytes(b"secret")
    (root / "link").symlink_to(root.parent / "outside")
    for name in (".hidden", "media/.new-1"):
        (root / name).write_bytes(b"secret")
    # Not by a client that would clean the path.
    address = server.removeprefix("http://")
    with contextlib.closing(http.client.HTTPConnection(address, timeout=10)) as client:
        client.putrequest("GET", path)
        client.endheaders()
        answer = client.getresponse()
        body = answer.read()
    assert answer.status in {400, 404}
    assert b"secret" not in body


def test_unexpected_fault_of_a_request_is_logged_once(
    root: pathlib.Path,
    server: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("odd")

    published.reached(root / "media")
    monkeypatch.setattr(fileserver, "answer", fail)
    for _ in range(3):
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{server}/media/a", timeout=60)
    assert caplog.text.count("ended in an unexpected fault") == 1
    assert "client_connected_cb" not in caplog.text


def test_requests_are_logged_without_the_names_of_media(
    root: pathlib.Path, server: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", fileserver.LOG.name)
    secret = published.secret_name("76760001-0000-4000-8000-000000000001", ".iso")
    encoded = secret.replace("-", "%2D")
    requests.get(f"{server}/{encoded}?key=value", headers={"User-Agent": "firmware"}, timeout=10)
    shown = secret.replace(str(masking.unguessable(secret)), masking.MASK)
    assert f"GET /{shown}?{masking.MASK} by firmware: 404" in caplog.text


def test_clients_that_say_nothing_leave_room_for_others(root: pathlib.Path, server: str) -> None:
    """As many as the option allows, but for one."""
    published.reached(root)
    (root / "a").write_bytes(b"x")
    where = ("127.0.0.1", int(server.rpartition(":")[2]))
    with contextlib.ExitStack() as silent:
        for _ in range(CONNECTIONS - 1):
            silent.enter_context(socket.create_connection(where)).sendall(b"GET /a HTTP/1.1\r\n")
        assert requests.get(f"{server}/a", timeout=10).content == b"x"


def test_a_stop_amid_downloads_is_silent_and_closes_all(
    root: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    published.reached(root)
    with (root / "a.iso").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    running = fileserver.FileServer("127.0.0.1", 0, CONNECTIONS)
    running.start()
    with contextlib.ExitStack() as opened:
        for _ in range(3):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", running.port)))
            client.sendall(b"GET /a.iso HTTP/1.1\r\nHost: here\r\n\r\n")
            assert client.recv(1)
        running.stop()
        descriptors = pathlib.Path("/proc/self/fd").iterdir()
        assert str(root / "a.iso") not in {os.path.realpath(one) for one in descriptors}
    assert not [one for one in caplog.records if one.levelname in {"WARNING", "ERROR"}]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_file_server_refuses_changes(root: pathlib.Path, server: str, method: str) -> None:
    published.reached(root)
    (root / "a").write_bytes(b"x")
    answer = requests.request(method, f"{server}/a", timeout=10)
    assert answer.status_code == 405
    assert (root / "a").read_bytes() == b"x"


def test_a_link_that_stays_inside_is_followed(root: pathlib.Path, server: str) -> None:
    published.reached(root)
    (root / "a").write_bytes(b"x")
    (root / "b").symlink_to("a")
    assert requests.get(f"{server}/b", timeout=10).content == b"x"


def test_an_address_that_is_taken_may_be_free_later(root: pathlib.Path, server: str) -> None:
    other = fileserver.FileServer("127.0.0.1", int(server.rpartition(":")[2]), 8)
    with pytest.raises(errors.OpenError, match=r"\[deploy\]http_host, http_port: cannot listen"):
        other.start()


def test_any_fault_at_the_start_is_raised(root: pathlib.Path) -> None:
    with pytest.raises(UnicodeError, match="label"):
        fileserver.FileServer("x" * 64, 0, 8).start()


def test_the_configuration_says_whether_the_conductor_serves(root: pathlib.Path) -> None:
    conf = config.CONF
    assert service.file_server(conf) is None
    conf.set_override("http_port", 8080, group="deploy")
    assert service.file_server(conf) is not None
    assert published.url("a.iso") == "http://127.0.0.1:8080/a.iso"
    conf.set_override("http_host", "::", group="deploy")
    with pytest.raises(config.ConfigError, match=r"^\[deploy\]http_url: must be set"):
        fileserver.configured(conf)


# -- publishing -----------------------------------------------------------------------------------


def test_bmcs_may_find_files_elsewhere(root: pathlib.Path) -> None:
    with pytest.raises(errors.MissingParameter, match=r"\[deploy\]http_url"):
        published.url("a")
    config.CONF.set_override("http_url", "http://192.0.2.1:80/files/", group="deploy")
    assert published.url("a", {}) == published.url("a") == "http://192.0.2.1:80/files/a"
    config.CONF.set_override("external_http_url", "https://out.example", group="deploy")
    assert published.url("a") == "http://192.0.2.1:80/files/a"
    assert published.url("a", {}) == "https://out.example/a"
    assert published.url("a", {"external_http_url": "http://x/"}) == "http://x/a"


@pytest.mark.parametrize("before", [None, 0o755, 0o2770], ids=["new", "older", "a-group's"])
@pytest.mark.parametrize("name", [published.MEDIA, published.IMAGES])
def test_other_users_cannot_list_secret_names(
    root: pathlib.Path, name: str, before: int | None
) -> None:
    folder = published.root() / name
    if before is not None:
        folder.mkdir()
        folder.chmod(before)
    published.write(folder / "secret", b"x")
    mode = folder.stat().st_mode & 0o7777
    assert mode == {None: 0o711, 0o755: 0o711, 0o2770: 0o2730}[before]
    assert (folder / "secret").stat().st_mode & 0o777 == 0o644
    assert folder.parent.stat().st_mode & 0o055 == 0o055  # whoever serves it gets there
    published.write(root / "other" / name / "common", b"x")
    assert (root / "other" / name).stat().st_mode & 0o777 == 0o755


def test_a_large_file_is_the_same_file_if_others_may_read_it(root: pathlib.Path) -> None:
    source = root.parent / "kernel"
    source.write_bytes(CONTENT)
    source.chmod(0o644)
    published.place(source, root / "n/kernel")
    assert (root / "n/kernel").stat().st_ino == source.stat().st_ino
    source.chmod(0o600)
    published.place(source, root / "n/other")
    assert (root / "n/other").stat().st_ino != source.stat().st_ino
    assert (root / "n/other").read_bytes() == CONTENT
    assert (root / "n/other").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in (root / "n").iterdir()) == ["kernel", "other"]


@pytest.fixture
def elsewhere(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder of another file system."""
    memory = pathlib.Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("NOT TESTED: no second file system here")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield pathlib.Path(folder)


@pytest.mark.parametrize("why", ["unreadable for others", "another file system"])
def test_one_copy_serves_all_nodes(
    root: pathlib.Path, elsewhere: pathlib.Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest is made once, too."""
    read: list[pathlib.Path] = []
    digest = checksums.digest

    def noted(file: pathlib.Path, algorithm: str) -> str:
        read.append(file)
        return digest(file, algorithm)

    monkeypatch.setattr(checksums, "digest", noted)
    source = (elsewhere if "system" in why else root.parent) / "image"
    source.write_bytes(CONTENT)
    source.chmod(0o644 if "system" in why else 0o600)
    names = [root / published.IMAGES / f"node-{number}" for number in range(20)]

    def give(name: pathlib.Path) -> None:
        published.place(source, name, lambda made: checksums.known_digest(made, "sha256"))

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        list(pool.map(give, names))
    assert len({name.stat().st_ino for name in names}) == 1
    assert names[0].read_bytes() == CONTENT
    assert len(read) == 1
    assert [path.stat().st_mode & 0o777 for path in root.glob(".*")] == [0o700]
    source.write_bytes(CONTENT[1:])
    give(names[0])
    assert (names[0].read_bytes(), names[1].read_bytes()) == (CONTENT[1:], CONTENT)
    assert len(list((root / ".shared").iterdir())) == 2


def test_link_that_was_put_there_after_the_check_is_not_followed(root: pathlib.Path) -> None:
    source, secret = root.parent / "kernel", root.parent / "secret"
    secret.write_bytes(b"secret")
    source.symlink_to(secret)
    with pytest.raises(errors.LocalFileError, match="kernel"):
        published.place(source, root / "n/kernel")
    assert not (root / "n/kernel").exists()


def test_file_that_fails_its_check_does_not_get_its_name(root: pathlib.Path) -> None:
    source = root.parent / "kernel"
    source.write_bytes(CONTENT)
    published.write(root / "n/kernel", b"before")
    seen: list[bytes] = []

    def refuse(made: pathlib.Path) -> None:
        seen.append(made.read_bytes())
        raise errors.ImageUnusable(image="kernel", reason="its sha256 is another")

    with pytest.raises(errors.ImageUnusable):
        published.place(source, root / "n/kernel", refuse)
    assert seen == [CONTENT]
    assert [path.read_bytes() for path in (root / "n").iterdir()] == [b"before"]


def test_a_symbolic_link_is_published_as_what_it_leads_to(root: pathlib.Path, server: str) -> None:
    """Operators name their newest kernel so."""
    source = root.parent / "srv/kernel-1"
    published.write(source, "one")
    source.with_name("kernel").symlink_to("kernel-1")
    link = source.with_name("kernel").as_uri()
    published.place(cache.fetch(link, "[conductor]deploy_kernel"), root / "n/kernel")
    assert requests.get(f"{server}/n/kernel", timeout=10).text == "one"
    assert (root / "n/kernel").stat().st_ino == source.stat().st_ino


def test_a_folder_goes_when_it_is_empty_and_one_nodes_own(root: pathlib.Path) -> None:
    published.write(root / "n/one", "1")
    published.write(root / "n/two", "2")
    published.remove(root / "n/one")
    published.remove_folder(root / "n")
    assert (root / "n/two").read_text() == "2"
    published.remove(root / "n/one", root / "n/two")
    assert (root / "n").exists()
    published.remove_folder(root / "n")
    published.remove_folder(root / "n")
    assert not (root / "n").exists()


def test_a_full_disk_leaves_the_file_before(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published.write(root / "one", "before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(errors.DiskFull, match=r"one"):
        published.write(root / "one", "after")
    assert [path.name for path in root.iterdir()] == ["one"]
    assert (root / "one").read_text() == "before"


# -- fetching -------------------------------------------------------------------------------------


def test_unchanged_file_is_not_fetched_again(root: pathlib.Path, server: str) -> None:
    published.write(root / "kernel", "one")
    url = f"{server}/kernel"
    first = cache.fetch(url)
    assert first.read_text() == "one"
    seen = first.stat().st_ino
    assert cache.fetch(url).stat().st_ino == seen
    published.write(root / "kernel", "another")
    assert cache.fetch(url).read_text() == "another"


def test_missing_file_is_reported_without_the_url_password(root: pathlib.Path, server: str) -> None:
    url = server.replace("//", "//ann:hidden@")
    with pytest.raises(errors.DownloadFailed, match=r"answers 404") as why:
        cache.fetch(f"{url}/none")
    assert "hidden" not in why.value.message
    with pytest.raises(errors.DownloadFailed, match=r"connection refused"):
        cache.fetch("http://127.0.0.1:1/none")
    with pytest.raises(errors.LocalFileError, match=r"No such file"):
        cache.fetch("file:///no/such/file", "[conductor]x")
    assert cache.fetch(f"file://{__file__}", "[conductor]x") == pathlib.Path(__file__)


# -- authorities, and disks that are full ----------------------------------------------------------


@pytest.fixture
def secure(root: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """The URL of an image of https, and the authority of its server."""
    folder = tmp_path / "secure"
    folder.mkdir()
    pem, key = certificate(folder)
    with images.serve(folder, (pem, key)) as web:
        web.put("kernel", CONTENT)
        yield f"{web.url}/kernel", pem
    config.CONF.clear_override("webserver_verify_ca")


def test_an_authority_of_ones_own_is_believed(secure: tuple[str, pathlib.Path]) -> None:
    url, pem = secure
    config.CONF.set_override("webserver_verify_ca", str(pem))
    assert cache.fetch(url).read_bytes() == CONTENT


@pytest.mark.parametrize("said", ["True", "true"])
def test_unknown_authority_is_refused_and_the_option_is_named(
    secure: tuple[str, pathlib.Path], said: str
) -> None:
    config.CONF.set_override("webserver_verify_ca", said)
    with pytest.raises(errors.DownloadFailed, match=r"self.signed.*webserver_verify_ca"):
        cache.fetch(secure[0])


def test_an_authority_that_is_not_there_is_named(secure: tuple[str, pathlib.Path]) -> None:
    config.CONF.set_override("webserver_verify_ca", "/nowhere/ca.pem")
    with pytest.raises(errors.LocalFileError, match=r"/nowhere/ca\.pem"):
        cache.fetch(secure[0])


def _mount_small(folder: pathlib.Path, size: str = "64k", files: int = 0) -> None:
    """Let a folder be a small file system; skip the test where only root could."""
    options = f"size={size},nr_inodes={files}"
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT TESTED: no file system can be mounted here")


@pytest.fixture
def small(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """``state_path`` on a file system of 8 MiB and few inodes."""
    folder = config.state_path()
    folder.mkdir(parents=True, exist_ok=True)
    _mount_small(folder, "8m", 64)
    yield folder
    subprocess.run(["umount", str(folder)], check=True, capture_output=True)


def test_full_disk_loses_its_unused_images_first(
    root: pathlib.Path, server: str, small: pathlib.Path
) -> None:
    """As many as necessary; a file in use stays, and one that can never fit costs nothing."""
    mib = 1024 * 1024
    for number in range(3):
        published.write(root / f"image-{number}", bytes([number]) * 2 * mib)
    files = [cache.fetch(f"{server}/image-{number}") for number in range(3)]
    os.utime(files[1], (1, 1))
    published.write(root / "new", b"x" * 3 * mib)
    published.write(root / "never", b"x" * 7 * mib)
    with cache.holding():
        cache.fetch(f"{server}/image-1")
        with (
            concurrent.futures.ThreadPoolExecutor(1) as other,
            pytest.raises(errors.DiskFull, match="downloads"),
        ):
            other.submit(cache.fetch, f"{server}/never").result()
        assert [file.exists() for file in files] == [True] * 3
    os.utime(files[1], (1, 1))
    assert cache.fetch(f"{server}/new").stat().st_size == 3 * mib
    assert [file.exists() for file in files] == [True, False, True]


@pytest.mark.parametrize("lack", ["space", "inodes"])
def test_boot_files_get_the_room_of_unused_images(
    root: pathlib.Path, server: str, small: pathlib.Path, lack: str
) -> None:
    published.write(root / "image", b"x" * 6 * 1024 * 1024)
    cached = cache.fetch(f"{server}/image")
    if lack == "inodes":
        with contextlib.suppress(OSError):
            for number in range(100):
                (small / f"other-{number}").touch()
    config.CONF.set_override("http_root", str(small / "downloads"), group="deploy")
    published.write(small / "downloads/boot", b"x" * (3_000_000 if lack == "space" else 1))
    assert not cached.exists()


def test_an_image_that_the_disk_has_no_room_for_is_told_and_leaves_nothing(
    root: pathlib.Path, server: str
) -> None:
    """A real file system that is full, in the middle of the download; then there is room."""
    published.write(root / "kernel", "x" * 100_000)
    folder = config.state_path() / "downloads"
    folder.mkdir(parents=True)
    _mount_small(folder)
    try:
        with pytest.raises(errors.DiskFull, match="downloads"):
            cache.fetch(f"{server}/kernel")
        assert list(folder.iterdir()) == []
        published.write(root / "kernel", "y" * 30_000)
        assert cache.fetch(f"{server}/kernel").read_text() == "y" * 30_000
    finally:
        subprocess.run(["umount", str(folder)], check=True, capture_output=True)


# -- over TLS ---------------------------------------------------------------------------------


@pytest.fixture
def tls(tmp_path: pathlib.Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1, and its key."""
    path, key = certificate(tmp_path)
    return str(path), str(key)


def test_files_are_given_over_tls_in_parts_too(root: pathlib.Path, tls: tuple[str, str]) -> None:
    published.reached(root / "media")
    (root / "media/a.iso").write_bytes(CONTENT)
    running = fileserver.FileServer("127.0.0.1", 0, CONNECTIONS, tls=tls)
    running.start()
    address = ("127.0.0.1", running.port)
    try:
        # Who connects and then says nothing keeps nobody waiting.
        with socket.create_connection(address, timeout=10):
            url = f"https://127.0.0.1:{running.port}/media/a.iso"
            whole = requests.get(url, timeout=10, verify=tls[0])
            part = requests.get(url, headers={"Range": "bytes=7-9"}, timeout=10, verify=tls[0])
        assert (whole.status_code, whole.content) == (200, CONTENT)
        assert (part.status_code, part.content) == (206, CONTENT[7:10])
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(url, timeout=10)
        with socket.create_connection(address, timeout=10) as plain:
            plain.sendall(b"GET /media/a.iso HTTP/1.1\r\nHost: x\r\n\r\n")
            assert CONTENT[:64] not in plain.recv(1000)
    finally:
        running.stop()


def test_renewed_certificate_is_shown_to_new_connections(
    root: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_files, "LOOK_SECONDS", 0.05)
    made = certificates.write(tmp_path, 10)
    published.reached(root / "media")
    (root / "media/a.iso").write_bytes(CONTENT)
    running = fileserver.FileServer("127.0.0.1", 0, 9, tls=(str(made[0]), str(made[1])))
    running.start()
    try:
        first = certificates.served_serial(running.port)
        with requests.Session() as kept:
            url = f"https://127.0.0.1:{running.port}/media/a.iso"
            assert kept.get(url, verify=str(made[0]), timeout=30).content == CONTENT
            certificates.write(tmp_path, 20)  # under the same names
            wanted = certificate_files.serial_number(made[0].read_bytes())
            assert wanted != first
            services.until(
                lambda: certificates.served_serial(running.port) == wanted, "the new one"
            )
            assert kept.get(url, verify=str(made[0]), timeout=30).content == CONTENT
        assert certificate_files.in_use()["[deploy]http_ssl_cert_file"].serial == wanted
        # A key that does not fit changes nothing.
        made[1].write_text("no key")
        time.sleep(0.3)
        assert certificates.served_serial(running.port) == wanted
    finally:
        running.stop()


def test_published_urls_are_https_if_files_are_served_by_tls(
    root: pathlib.Path, tls: tuple[str, str]
) -> None:
    config.CONF.set_override("http_port", 8443, group="deploy")
    config.CONF.set_override("http_ssl_cert_file", tls[0], group="deploy")
    try:
        assert published.base() == "https://127.0.0.1:8443"
    finally:
        config.CONF.clear_override("http_ssl_cert_file", group="deploy")


def test_a_certificate_with_another_s_key_stops_the_start(
    root: pathlib.Path, tls: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "other").mkdir()
    _, key = certificate(tmp_path / "other")
    with pytest.raises(config.ConfigError, match="http_ssl_cert_file"):
        fileserver.FileServer("127.0.0.1", 0, CONNECTIONS, tls=(tls[0], str(key)))


# -- slow and odd clients ---------------------------------------------------------------------


def talk(server: str, text: bytes) -> bytes:
    """Send bytes, and return everything that comes until the server closes the connection."""
    host, _, port = server.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.fixture
def roomy(root: pathlib.Path) -> Iterator[fileserver.FileServer]:
    """A server with the usual number of connections."""
    running = fileserver.FileServer("127.0.0.1", 0, 400)
    running.start()
    yield running
    running.stop()


def test_two_hundred_slow_clients_cost_no_thread_and_hold_up_nobody(
    root: pathlib.Path, roomy: fileserver.FileServer
) -> None:
    """Half of them send a head in drips, half take a large file in drips."""
    published.reached(root)
    (root / "small").write_bytes(b"x")
    with (root / "large").open("wb") as file:
        file.truncate(1 << 28)
    before = threading.active_count()
    with contextlib.ExitStack() as slow:
        for number in range(200):
            client = socket.create_connection(("127.0.0.1", roomy.port))
            slow.enter_context(client)
            client.sendall(
                b"GET /small HTTP/1.1\r\nX"
                if number % 2
                else b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
            )
        url = f"http://127.0.0.1:{roomy.port}/small"
        assert requests.get(url, timeout=10).content == b"x"
        assert threading.active_count() <= before + 5


def test_more_connections_than_allowed_take_the_places_of_silent_ones(
    root: pathlib.Path, server: str
) -> None:
    published.reached(root)
    (root / "a").write_bytes(b"x")
    where = ("127.0.0.1", int(server.rpartition(":")[2]))
    with contextlib.ExitStack() as silent:
        for _ in range(CONNECTIONS * 5):
            silent.enter_context(socket.create_connection(where)).sendall(b"GET /a HTTP/1.1\r\n")
        assert requests.get(f"{server}/a", timeout=10).content == b"x"


@pytest.mark.parametrize(
    ("wish", "status", "body"),
    [
        ("bytes=0-0", 206, b"a"),
        ("bytes=2-", 206, b"cdef"),
        ("bytes=-2", 206, b"ef"),
        ("bytes=-99", 206, b"abcdef"),
        ("bytes=4-99", 206, b"ef"),
        ("bytes=6-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=4-2", 200, b"abcdef"),
        ("bytes=0-1,3-4", 200, b"abcdef"),
        ("bytes=-", 200, b"abcdef"),
        ("bytes=a-b", 200, b"abcdef"),
        ("bytes=\u0661-2", 200, b"abcdef"),
        ("bytes=" + "9" * 500 + "-", 200, b"abcdef"),
        ("pages=1-2", 200, b"abcdef"),
    ],
)
def test_a_range_is_given_refused_or_ignored(
    root: pathlib.Path, server: str, wish: str, status: int, body: bytes
) -> None:
    published.reached(root)
    (root / "a").write_bytes(b"abcdef")
    request = f"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nRange: {wish}\r\n\r\n"
    said = talk(server, request.encode())
    assert said.startswith(f"HTTP/1.1 {status} ".encode())
    assert said.partition(b"\r\n\r\n")[2] == body


def test_a_range_of_another_version_is_the_whole_file(root: pathlib.Path, server: str) -> None:
    published.reached(root)
    (root / "a").write_bytes(b"abcdef")
    first = requests.get(f"{server}/a", timeout=10)
    for condition, status in ((first.headers["ETag"], 206), ('"other"', 200)):
        asked = {"Range": "bytes=1-2", "If-Range": condition}
        assert requests.get(f"{server}/a", headers=asked, timeout=10).status_code == status
    since = {"If-Modified-Since": first.headers["Last-Modified"]}
    assert requests.get(f"{server}/a", headers=since, timeout=10).status_code == 304


@pytest.mark.parametrize(
    "text",
    [
        b"GET /a HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET  /a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nGET /",
        b"GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_malformed_request_is_refused_and_the_connection_closed(
    root: pathlib.Path, server: str, text: bytes
) -> None:
    published.reached(root)
    (root / "a").write_bytes(b"secret")
    said = b""
    with contextlib.suppress(ConnectionError):  # it may close before all of it was sent
        said = talk(server, text + b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 400 ")
    assert b"secret" not in said


def test_requests_that_come_together_are_answered_in_turn(root: pathlib.Path, server: str) -> None:
    published.reached(root)
    for name in ("a", "b"):
        (root / name).write_text(name * 3)
    texts = [f"GET /{name} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for name in ("a", "b", "no", "a")]
    said = talk(server, b"".join(texts))
    bodies = [part.partition(b"\r\n\r\n")[2] for part in said.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"aaa", b"bbb", b"", b"aaa"]


@pytest.mark.parametrize("use", ["publish", "compare", "drive", "medium"])
def test_pipe_in_place_of_a_file_is_refused_without_waiting(root: pathlib.Path, use: str) -> None:
    """The owner of a folder may put it there after the file was checked."""
    pipe = root.parent / "image"
    os.mkfifo(pipe)
    file = root.parent / "other"
    file.write_bytes(CONTENT)
    bases = iso.Bases(root.parent / "bases", 100)
    acts: dict[str, Callable[[], object]] = {
        "publish": lambda: published.place(pipe, root / "media/a.img"),
        "compare": lambda: checksums.digest(pipe, "sha256"),
        "drive": lambda: configdrive.fetched(pipe),
        "medium": lambda: bases.make(iso.Recipe(pipe, file, file), root / "a.iso", "text", "p"),
    }
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(acts[use])
        try:
            with pytest.raises((errors.Error, OSError), match="not a regular file") as caught:
                waiting.result(60)
            assert not isinstance(caught.value, TimeoutError)
        finally:  # releases a reader that waits
            while not waiting.done():
                os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
                time.sleep(0.01)
    assert not (root / "media/a.img").exists()


# Images that are what they should be, and others.

MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    yield
    for name in ("permitted_image_formats", "disable_deep_image_inspection"):
        config.CONF.clear_override(name, "conductor")


def _raw(file: pathlib.Path) -> pathlib.Path:
    file.write_bytes(b"no format at all" * 65536)
    return file


def _gpt(file: pathlib.Path) -> pathlib.Path:
    """A protective master boot record (UEFI 2.10, 5.2.3)."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, 2047)
    file.write_bytes(b"\0" * 446 + entry + b"\0" * 48 + b"\x55\xaa" + b"\0" * MIB)
    return file


def _qcow2(file: pathlib.Path, backing: bytes = b"") -> pathlib.Path:
    """The header of a qcow2 image of version 3; ``backing`` names a file it is laid over."""
    at = 112 if backing else 0
    header = struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        b"QFI\xfb", 3, at, len(backing), 16, MIB, 0, 1, 0x30000, 0x10000, 1, 0, 0, 0, 0, 0, 4, 104,
    )  # fmt: skip
    file.write_bytes((header + b"\0" * 8 + backing).ljust(MIB, b"\0"))
    return file


def _check(file: pathlib.Path, said: str | None = None) -> str | None:
    checksum = checksums.Checksum("sha256", checksums.digest(file, "sha256"))
    return verification.check(file, checksum, said=said, shown="http://images.example/x")


def test_a_format_is_told_by_the_content(tmp_path: pathlib.Path) -> None:
    """A partition table makes no other format of a raw image."""
    assert _check(_raw(tmp_path / "a")) == "raw"
    assert _check(_gpt(tmp_path / "b")) == "raw"
    assert _check(_gpt(tmp_path / "b"), "raw") == "raw"
    assert _check(_qcow2(tmp_path / "c")) == "qcow2"
    assert _check(_qcow2(tmp_path / "c"), "qcow2") == "qcow2"


def test_image_with_a_wrong_format_name_is_refused(tmp_path: pathlib.Path) -> None:
    """Taken for raw, a qcow2 image would be written as it stands."""
    with pytest.raises(errors.ImageUnusable, match="it is qcow2"):
        _check(_qcow2(tmp_path / "a"), "raw")
    with pytest.raises(errors.ImageUnusable, match="it is raw"):
        _check(_raw(tmp_path / "b"), "qcow2")


def test_an_image_that_names_files_of_its_reader_is_refused(tmp_path: pathlib.Path) -> None:
    """A backing file is read by whoever converts the image."""
    with pytest.raises(errors.ImageUnusable, match="not safe"):
        _check(_qcow2(tmp_path / "a", b"/etc/shadow"))


def test_the_operator_says_which_formats_there_may_be(tmp_path: pathlib.Path) -> None:
    """And may switch looking off."""
    config.CONF.set_override("permitted_image_formats", ["raw"], "conductor")
    with pytest.raises(errors.ImageUnusable, match="permitted_image_formats"):
        _check(_qcow2(tmp_path / "a"))
    config.CONF.set_override("disable_deep_image_inspection", True, "conductor")
    assert _check(_qcow2(tmp_path / "a"), "qcow2") == "qcow2"
    assert _check(_qcow2(tmp_path / "a")) is None


def test_another_file_under_the_same_name_is_read_again(tmp_path: pathlib.Path) -> None:
    """What is remembered is of the file as it was."""
    file = _raw(tmp_path / "a")
    first = checksums.Checksum("sha256", checksums.digest(file, "sha256"))
    verification.check(file, first, said=None, shown="x")
    shutil.copy(_gpt(tmp_path / "b"), file)
    with pytest.raises(errors.ImageUnusable, match="sha256"):
        verification.check(file, first, said=None, shown="x")


def test_a_file_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    """As a fault of the conductor's machine."""
    with pytest.raises(errors.LocalFileError, match="none"):
        verification.check(
            tmp_path / "none", checksums.Checksum("sha256", "0" * 64), said=None, shown="x"
        )
