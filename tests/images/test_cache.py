"""Files of the network: one download for all, bounded, and never half of one."""

import concurrent.futures
import contextlib
import gzip
import hashlib
import http.server
import os
import pathlib
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.domain import failures
from ironic_lite.images import cache, checksums, download, verification

BODY = b"x" * 3_000_000
PATIENCE = 20


class Web:
    """A web server whose answers a test chooses; ``asked`` are the headers of each request."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.body, self.tag, self.short, self.length = BODY, '"1"', 0, True
        self.more: dict[str, str] = {}
        self.tagged = True
        self.status, self.patience = 200, threading.Event()
        self.patience.set()
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.asked.append(dict(self.headers))
                if self.headers.get("If-None-Match") == web.tag:
                    self.send_response(304)
                    self.end_headers()
                    return
                forged = "forged" in self.path and web.patience.wait(PATIENCE)
                self.send_response(403 if forged else web.status)
                if web.tagged:
                    self.send_header("ETag", web.tag)
                for name, value in web.more.items():
                    self.send_header(name, value)
                if web.length:
                    self.send_header("Content-Length", str(len(web.body)))
                self.end_headers()
                self.wfile.write(web.body[:1])
                if not web.patience.wait(PATIENCE):
                    web.more["Waited"] = "in vain"
                self.wfile.write(web.body[1 : len(web.body) - web.short])

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/image.raw"

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def web() -> Iterator[Web]:
    """A web server."""
    made = Web()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _own_place(tmp_path: pathlib.Path) -> Iterator[None]:
    conf = config.CONF
    conf.set_override("state_path", str(tmp_path))
    conf.set_override("image_cache_size", 10, "conductor")
    yield
    conf.clear_override("state_path")
    for name in (
        "image_cache_size",
        "image_blocked_networks",
        "file_url_allowed_paths",
        "use_cached_images_offline",
    ):
        conf.clear_override(name, "conductor")


def _wait_for(there: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_many_who_want_one_file_share_one_download(web: Web) -> None:
    """The others are told by the server that nothing has changed."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = set(pool.map(cache.fetch, [web.url] * 8))
    assert len(found) == 1
    assert found.pop().read_bytes() == BODY
    assert sum("If-None-Match" not in headers for headers in web.asked) == 1


def test_waiting_callers_fail_with_the_download(web: Web) -> None:
    """A silent server would be asked by one after the other, each for a minute."""
    web.short = 1000
    web.patience.clear()
    kept = cache.place(download.read_source(web.url, "url"))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(cache.fetch, web.url) for _ in range(8)]
        _wait_for(lambda: cache.TURNS.waiters(kept) == len(asked))
        web.patience.set()
        for one in asked:
            with pytest.raises(errors.DownloadFailed, match="broke off after"):
                one.result()
    assert len(web.asked) == 1
    assert cache.TURNS.waiters(kept) == 0
    web.short = 0
    assert cache.fetch(web.url).read_bytes() == BODY


def test_image_that_changed_on_its_server_is_fetched_again(web: Web) -> None:
    """The URL stays, the content does not."""
    cache.fetch(web.url)
    web.body, web.tag = b"new", '"2"'
    assert cache.fetch(web.url).read_bytes() == b"new"


def _sum(content: bytes) -> checksums.Checksum:
    return checksums.Checksum("sha256", hashlib.sha256(content).hexdigest())


SUM = _sum(BODY)


def test_a_file_is_fetched_once_however_its_address_is_signed(web: Web) -> None:
    """Its server judges each signature, all the same."""
    first = cache.fetch(f"{web.url}?signature=1", checksum=SUM)
    assert cache.fetch(f"{web.url}?signature=2", checksum=SUM) == first
    assert [asked.get("If-None-Match") for asked in web.asked] == [None, web.tag]
    held = [file for file in first.parent.iterdir() if file.suffix != ".json"]
    assert held == [first]
    assert "signature" not in first.with_suffix(".json").read_text()


def test_a_signature_that_is_not_good_gets_nothing_that_others_fetched(web: Web) -> None:
    cache.fetch(f"{web.url}?signature=1", checksum=SUM)
    web.tag = '"other"'
    with pytest.raises(errors.DownloadFailed, match="403"):
        cache.fetch(f"{web.url}?signature=forged", checksum=SUM)


@pytest.mark.parametrize("tag", ['W/"1"', None], ids=["weak", "none"])
def test_a_query_that_chooses_the_file_is_not_taken_for_a_signature(
    web: Web, tag: str | None
) -> None:
    """Without a tag that tells all files apart, the server is not asked whether it is the same."""
    web.tag, web.more = tag or web.tag, {"Last-Modified": "Sun, 22 Nov 2026 00:00:00 GMT"}
    web.tagged = tag is not None
    first = cache.fetch(f"{web.url}?id=1", checksum=SUM)
    web.body = b"another"
    with pytest.raises(errors.ImageUnusable, match="its sha256 is"):
        cache.fetch(f"{web.url}?id=2", checksum=SUM)
    assert not {"If-None-Match", "If-Modified-Since"} & web.asked[-1].keys()
    assert first.read_bytes() == BODY, "the file of others took another's place"
    assert cache.fetch(f"{web.url}?id=1") != cache.fetch(f"{web.url}?id=2")
    assert cache.fetch(f"{web.url}?id=2", checksum=_sum(web.body)) != first


def test_a_wrong_checksum_of_one_does_not_spoil_the_file_of_another(web: Web) -> None:
    """Servers may give the same tag to files whose addresses differ in the query."""
    web.body = b"another"
    with pytest.raises(errors.ImageUnusable):
        cache.fetch(f"{web.url}?id=2", checksum=SUM)
    web.body = BODY
    assert cache.fetch(f"{web.url}?id=1", checksum=SUM).read_bytes() == BODY


def test_waiting_caller_with_a_valid_url_downloads_itself(web: Web) -> None:
    """The failure of one is not that of all who want the same file."""
    web.patience.clear()
    kept = cache.place(download.read_source(web.url, "url"), SUM)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        bad = pool.submit(cache.fetch, f"{web.url}?signature=forged", checksum=SUM)
        _wait_for(lambda: len(web.asked) == 1)
        good = pool.submit(cache.fetch, f"{web.url}?signature=1", checksum=SUM)
        _wait_for(lambda: cache.TURNS.waiters(kept) == 2)
        web.patience.set()
        with pytest.raises(errors.DownloadFailed, match="403"):
            bad.result()
        assert good.result().read_bytes() == BODY


@pytest.mark.parametrize("length", [True, False], ids=["promised", "unsaid"])
def test_image_too_large_for_the_cache_is_not_kept(
    web: Web, length: bool, tmp_path: pathlib.Path
) -> None:
    """Neither when the server says so before nor when it does not."""
    web.body, web.length = b"x" * 11 * 1024 * 1024, length
    with pytest.raises(errors.DownloadFailed, match="image_cache_size"):
        cache.fetch(web.url)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_half_a_file_never_takes_its_name(web: Web, tmp_path: pathlib.Path) -> None:
    """The server breaks off."""
    web.short = 1000
    with pytest.raises(errors.DownloadFailed):
        cache.fetch(web.url)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]
    web.short = 0
    assert cache.fetch(web.url).read_bytes() == BODY


def test_least_recently_used_image_is_removed_first(web: Web) -> None:
    """Three files of 3 MB have room among 10 MiB, a fourth has not."""
    urls = [f"{web.url}?{n}" for n in range(4)]
    files = [cache.fetch(url) for url in urls[:3]]
    for age, file in zip((100, 300, 200), files, strict=True):
        about = file.stat()
        os.utime(file, (about.st_atime - age, about.st_mtime))
    last = cache.fetch(urls[3])
    assert [file.exists() for file in (*files, last)] == [True, False, True, True]


def test_use_of_a_cached_image_changes_only_its_time_of_access(web: Web) -> None:
    """Its digest and the ETags of its other names depend on the time of change."""
    file = cache.fetch(web.url)
    hour = 3600 * 10**9
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns - hour, before.st_mtime_ns - hour))
    assert cache.fetch(web.url) == file
    about = file.stat()
    assert (about.st_ino, about.st_mtime_ns) == (before.st_ino, before.st_mtime_ns - hour)
    assert about.st_atime_ns > before.st_atime_ns - hour


def test_image_that_its_server_has_not_changed_is_read_for_its_digest_once(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = checksums.Checksum("sha256", hashlib.sha256(BODY).hexdigest())
    read: list[pathlib.Path] = []
    digest = checksums.digest

    def noted(file: pathlib.Path, algorithm: str) -> str:
        read.append(file)
        return digest(file, algorithm)

    monkeypatch.setattr(checksums, "digest", noted)
    for _ in range(3):
        verification.prove(cache.fetch(web.url), known, shown="x")
    assert len(read) == 1


def test_a_blocked_network_is_not_fetched_from(web: Web) -> None:
    """Whether it is written as an address or as a name."""
    config.CONF.set_override("image_blocked_networks", ["127.0.0.0/8", "::1/128"], "conductor")
    with pytest.raises(errors.InvalidParameter, match="image_blocked_networks"):
        cache.fetch(web.url, "driver_info/deploy_kernel")
    with pytest.raises(errors.DownloadFailed, match="image_blocked_networks"):
        cache.fetch(web.url.replace("127.0.0.1", "localhost"), "driver_info/deploy_kernel")
    assert not web.asked


def test_local_files_of_nodes_must_lie_where_the_operator_says(tmp_path: pathlib.Path) -> None:
    """Those of options may lie anywhere."""
    file = tmp_path / "kernel"
    file.write_bytes(b"k")
    with pytest.raises(errors.InvalidParameter, match="file_url_allowed_paths"):
        cache.fetch(file.as_uri(), "driver_info/deploy_kernel")
    assert cache.fetch(file.as_uri(), "[conductor]deploy_kernel") == file
    config.CONF.set_override("file_url_allowed_paths", [str(tmp_path)], "conductor")
    assert cache.fetch(file.as_uri(), "driver_info/deploy_kernel") == file
    with pytest.raises(errors.LocalFileError, match="No such file"):
        cache.fetch((tmp_path / "none").as_uri(), "driver_info/deploy_kernel")


def test_a_link_to_a_local_file_is_followed_once(tmp_path: pathlib.Path) -> None:
    """What has been judged is what is read, wherever the link leads later."""
    allowed, secret = tmp_path / "allowed", tmp_path / "secret"
    allowed.mkdir()
    (allowed / "kernel-1").write_bytes(b"k")
    secret.write_bytes(b"s")
    link = allowed / "kernel"
    link.symlink_to("kernel-1")
    config.CONF.set_override("file_url_allowed_paths", [str(allowed)], "conductor")
    found = cache.fetch(link.as_uri(), "driver_info/deploy_kernel")
    link.unlink()
    link.symlink_to(secret)
    assert found.read_bytes() == b"k"
    with pytest.raises(errors.InvalidParameter, match="file_url_allowed_paths"):
        cache.fetch(link.as_uri(), "driver_info/deploy_kernel")


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "folder"])
def test_special_file_is_refused_unopened(tmp_path: pathlib.Path, kind: str) -> None:
    """To open a pipe takes until somebody writes to it."""
    found = tmp_path / "kernel"
    if kind == "pipe":
        os.mkfifo(found)
    elif kind == "folder":
        found.mkdir()
    else:
        found.symlink_to("/dev/zero")
    config.CONF.set_override("file_url_allowed_paths", [str(tmp_path), "/dev"], "conductor")
    with pytest.raises(errors.LocalFileError, match="not a regular file"):
        cache.fetch(found.as_uri(), "driver_info/deploy_kernel")


def test_refused_download_and_wrong_checksum_state_their_facts(web: Web) -> None:
    wrong = checksums.Checksum("sha256", "0" * 64)
    with pytest.raises(errors.ImageUnusable) as differs:
        cache.fetch(f"{web.url}?a", checksum=wrong)
    facts = failures.of(differs.value)["facts"]
    assert (facts["algorithm"], facts["expected"]) == ("sha256", "0" * 64)
    assert facts["actual"] == hashlib.sha256(BODY).hexdigest()
    web.status = 404
    with pytest.raises(errors.DownloadFailed) as missing:
        cache.fetch(f"{web.url}?sig=secret")
    cause = failures.of(missing.value)
    assert (cause["retryable"], cause["facts"]["http_status"]) == (True, 404)
    assert cause["facts"]["url"].startswith(web.url)
    assert "secret" not in str(cause)


def test_a_password_in_an_address_is_not_told(web: Web) -> None:
    """Nor is a signature in its query."""
    port = web.url.split(":")[2].split("/")[0]
    web.close()
    with pytest.raises(errors.DownloadFailed) as caught:
        cache.fetch(f"http://me:secret@127.0.0.1:{port}/x?sig=secret")
    assert "secret" not in str(caught.value.as_data())


def test_image_in_use_stays(web: Web) -> None:
    """Another file that has no room beside it is refused; afterwards it goes as all else does."""
    urls = [f"{web.url}?{n}" for n in range(4)]
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        with cache.holding(), cache.holding():
            held = [cache.fetch(url) for url in urls[:3]]
            with pytest.raises(errors.DownloadFailed, match="in use take 9 MiB of 10 MiB"):
                other.submit(cache.fetch, urls[3]).result()
            assert [file.exists() for file in held] == [True] * 3
        other.submit(cache.fetch, urls[3]).result()
    assert [file.exists() for file in held] == [False, True, True]


def _kept_bytes(folder: pathlib.Path) -> int:
    """Return the bytes of all files below a folder, each inode once."""
    seen = {}
    for file in folder.rglob("*"):
        about = file.stat()
        seen[about.st_ino] = about.st_size if file.is_file() else 0
    return sum(seen.values())


def test_limit_counts_running_downloads(web: Web, tmp_path: pathlib.Path) -> None:
    """Three of four files of 3 MB fit into 10 MiB, whoever comes first."""
    web.patience.clear()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(cache.fetch, f"{web.url}?{n}") for n in range(4)]
        _wait_for(lambda: any(one.done() for one in asked))
        assert _kept_bytes(tmp_path) == 3 * len(BODY)
        web.patience.set()
        failed = [str(one.exception()) for one in asked if one.exception() is not None]
    assert len(failed) == 1
    assert "image_cache_size" in failed[0]


@pytest.mark.parametrize("length", [True, False], ids=["promised", "unsaid"])
def test_limit_counts_files_that_machines_fetch(
    web: Web, tmp_path: pathlib.Path, length: bool
) -> None:
    """To remove their names in the cache would free nothing, so others are refused."""
    web.length = length
    names = [tmp_path / f"machine-{n}" for n in range(3)]
    for number, name in enumerate(names):
        os.link(cache.fetch(f"{web.url}?{number}"), name)
    with pytest.raises(errors.DownloadFailed, match="image_cache_size"):
        cache.fetch(f"{web.url}?other")
    assert _kept_bytes(tmp_path) < 10 * 1024 * 1024
    names[1].unlink()
    assert cache.fetch(f"{web.url}?other").exists()
    assert _kept_bytes(tmp_path) < 10 * 1024 * 1024


def test_older_version_counts_as_long_as_a_machine_fetches_it(
    web: Web, tmp_path: pathlib.Path
) -> None:
    for version in range(5):
        web.body = bytes([version]) * len(BODY)
        web.tag = f'"{version}"'
        try:
            os.link(cache.fetch(web.url), tmp_path / f"machine-{version}")
        except errors.DownloadFailed as why:
            assert "image_cache_size" in str(why)  # the later ones are refused
    assert _kept_bytes(tmp_path) < 10 * 1024 * 1024


def test_rest_of_a_killed_download_makes_room(web: Web) -> None:
    """Nobody holds its lock, so its writer is dead."""
    folder = cache.fetch(f"{web.url}?0").parent
    rest = folder / ".new-abc"
    rest.write_bytes(b"x" * 6_000_000)
    os.utime(rest, (1, 1))
    cache.fetch(f"{web.url}?1")
    assert not rest.exists()


def test_server_without_tags_sends_a_verified_image_once(web: Web) -> None:
    """It is asked each time, and its head is enough; another checksum needs the content."""
    web.tagged = False
    first = cache.fetch(web.url, checksum=SUM)
    before = first.stat().st_ino
    web.body = b"y" * len(BODY)
    assert cache.fetch(web.url, checksum=SUM).stat().st_ino == before
    assert first.read_bytes() == BODY
    assert len(web.asked) == 2
    assert cache.fetch(web.url, checksum=_sum(web.body)).read_bytes() == web.body


def test_md5_does_not_identify_a_cached_image(web: Web) -> None:
    """Another file with the same md5 can be made."""
    web.tagged = False
    md5 = checksums.Checksum("md5", hashlib.md5(BODY, usedforsecurity=False).hexdigest())
    cache.fetch(web.url, checksum=md5)
    web.body = b"new"
    assert cache.fetch(web.url, checksum=md5).read_bytes() == b"new"


@pytest.mark.parametrize("status", [401, 403, 404, 500])
@pytest.mark.parametrize("offline", [False, True])
def test_refusal_of_the_server_ends_the_use_of_a_verified_image(
    web: Web, status: int, offline: bool
) -> None:
    """The checksum is the key to the bytes, not to the right to have them."""
    config.CONF.set_override("use_cached_images_offline", offline, "conductor")
    web.tagged = False
    cache.fetch(web.url, checksum=SUM)
    web.status = status
    with pytest.raises(errors.DownloadFailed, match=f"its server answers {status}"):
        cache.fetch(web.url, checksum=SUM)


@pytest.mark.parametrize(
    ("address", "checksum", "allowed"),
    [
        ("http://{host}/image.raw", SUM, True),
        ("http://{host}/image.raw?signature=1", SUM, False),
        ("http://me:secret@{host}/image.raw", SUM, False),
        ("http://{host}/image.raw", None, False),
        ("http://{host}/other.raw", SUM, False),
    ],
    ids=["plain", "signature", "login", "no checksum", "never fetched"],
)
def test_verified_image_is_used_without_its_server_only_where_the_option_permits(
    web: Web,
    address: str,
    checksum: checksums.Checksum | None,
    allowed: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = web.url.split("/")[2]
    url = address.format(host=host)
    cache.fetch(url if "other" not in url else web.url, checksum=checksum)
    web.close()
    with pytest.raises(errors.DownloadFailed, match="connection refused"):
        cache.fetch(url, checksum=checksum)
    config.CONF.set_override("use_cached_images_offline", True, "conductor")
    if not allowed:
        with pytest.raises(errors.DownloadFailed, match="connection refused"):
            cache.fetch(url, checksum=checksum)
        return
    assert cache.fetch(url, checksum=checksum).read_bytes() == BODY
    (line,) = (one for one in caplog.records if "without its server" in one.getMessage())
    assert (line.levelname, url in line.getMessage()) == ("WARNING", True)


def test_download_of_the_same_content_keeps_the_cached_file(web: Web) -> None:
    """Machines have names of it, and each further inode would take its size."""
    web.tagged = False
    before = cache.fetch(web.url).stat().st_ino
    assert cache.fetch(web.url).stat().st_ino == before
    assert len(web.asked) == 2
    first = cache.fetch(f"{web.url}?signature=1", checksum=SUM)
    before = first.stat().st_ino
    assert cache.fetch(f"{web.url}?signature=2", checksum=SUM).stat().st_ino == before


def test_a_file_cut_short_is_fetched_again(web: Web) -> None:
    """As one may be after a power failure; its server would say that nothing has changed."""
    file = cache.fetch(web.url)
    os.truncate(file, 1000)
    assert cache.fetch(web.url).read_bytes() == BODY


def test_a_server_that_packs_unasked_is_refused(web: Web, tmp_path: pathlib.Path) -> None:
    """A few bytes of it may be any number unpacked."""
    web.more = {"Content-Encoding": "gzip"}
    web.body = gzip.compress(BODY)
    with pytest.raises(errors.DownloadFailed, match=r"as 'gzip' though asked not to"):
        cache.fetch(web.url)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_server_that_sends_a_byte_now_and_then_is_left(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one download may take is looked at whenever something arrives."""
    monkeypatch.setattr(cache, "MOST_SECONDS", 0)
    web.patience.clear()
    with pytest.raises(errors.DownloadFailed, match="took longer"):
        cache.fetch(web.url)
    assert "Waited" not in web.more
    web.patience.set()


HEAD = b"HTTP/1.1 200 OK\r\nX: "
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"
LEADS_ON = b"HTTP/1.1 302 Found\r\nLocation: /other\r\n\r\n"
FOUND = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfound"


@contextlib.contextmanager
def trickling(begin: bytes) -> Iterator[str]:
    """A server that begins an answer, and then sends a byte of it now and then, without end; what
    is at /other it gives at once.
    """
    gone = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked = self.request.recv(65536)
            self.request.sendall(FOUND if asked.startswith(b"GET /other ") else begin)
            with contextlib.suppress(OSError):
                while not gone.wait(0.02):
                    self.request.sendall(b"x")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/image.raw"
        gone.set()
        server.shutdown()


@pytest.mark.parametrize(
    ("begin", "said"),
    [(HEAD, "no complete answer in time"), (CHUNKS, "took longer")],
    ids=["headers", "the-length-of-a-chunk"],
)
def test_a_server_that_trickles_is_left_whatever_it_is_at(
    begin: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What trickles there is never read to its end, so nobody could look at a clock in between."""
    monkeypatch.setattr(cache, "MOST_SECONDS", 0.6)
    monkeypatch.setattr(cache, "SILENCE_SECONDS", 0.3)
    with trickling(begin) as url, pytest.raises(errors.DownloadFailed, match=said):
        cache.fetch(url)


def test_body_of_a_redirection_is_not_waited_for() -> None:
    with trickling(LEADS_ON) as url:
        assert cache.fetch(url).read_bytes() == b"found"


@pytest.mark.parametrize("page", [b"", b"x" * 3000], ids=["nothing", "a-page"])
def test_a_redirection_within_a_server_that_keeps_connections_is_followed(page: bytes) -> None:
    """What was not read of an answer is not taken for the next one of its connection."""
    head = b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: %d\r\n\r\n" % len(page)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.wfile.write(FOUND if self.path == "/other" else head + page)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/image.raw"
        assert cache.fetch(url).read_bytes() == b"found"
        server.shutdown()


@pytest.mark.parametrize(
    "place",
    ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://h:99999/", "http://[::1/", "http://["],
    ids=["local-file", "ftp", "no-port", "half-an-address", "no-address"],
)
def test_a_redirection_leads_to_web_servers_alone(
    web: Web, place: str, tmp_path: pathlib.Path
) -> None:
    """Whatever the first address was."""
    web.status, web.more = 302, {"Location": place}
    with pytest.raises(errors.DownloadFailed, match="it redirects to something other than a URL"):
        cache.fetch(web.url)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_length_that_is_none_is_not_believed(web: Web) -> None:
    """Nor does it break anything."""
    web.length = False
    for said in ("\u00b2", "9" * 5000, "-1"):
        web.more = {"Content-Length": said}
        assert cache.fetch(f"{web.url}?{len(said)}").read_bytes() == BODY
