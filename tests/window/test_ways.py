"""Ways to the service that cut streams or keep them back: nothing is lost, nothing twice."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
import requests
from playwright import sync_api

from tests.support import service
from tests.support.ports import free_port
from tests.window.acts import row
from tests.window.conftest import Faults, expect, watched

PLACES = "/usr/sbin:/usr/bin:/usr/local/sbin"
NGINX, HAPROXY = (shutil.which(name, path=PLACES) for name in ("nginx", "haproxy"))
MISSING = "NOT TESTED: {0} is not installed; apt-get install {0}"
needs_nginx = pytest.mark.skipif(NGINX is None, reason=MISSING.format("nginx-light"))
needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason=MISSING.format("haproxy"))

FIRST_LINE_MS, POLL_MS = 5000, 5000

BUFFERING = """daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass {url}; proxy_http_version 1.1; proxy_read_timeout {seconds}s;
      proxy_ignore_headers X-Accel-Buffering;
      gzip on; gzip_types *; gzip_min_length 0; gzip_buffers 32 64k;
    }}
  }}
}}
"""
CUTTING = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server {seconds}s
listen api
  bind 127.0.0.1:{port}
  server api {address}
"""

Proxy = Callable[..., contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def running(command: list[str], port: int) -> Iterator[str]:
    """Run a proxy; return its address."""
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(command)
    try:
        service.until(lambda: requests.get(f"{address}/v1", timeout=60).ok, command[0])
        yield address
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def buffering(live: service.Service, tmp_path: pathlib.Path) -> Proxy:
    """Start nginx that keeps streams back, and waits so many seconds for an answer."""

    def start(seconds: int) -> contextlib.AbstractContextManager[str]:
        port, settings = free_port(), tmp_path / "nginx.conf"
        text = BUFFERING.format(folder=tmp_path, port=port, url=live.url, seconds=seconds)
        settings.write_text(text)
        return running([str(NGINX), "-c", str(settings), "-e", f"{tmp_path}/error.log"], port)

    return start


@pytest.fixture
def cutting(live: service.Service, tmp_path: pathlib.Path) -> Proxy:
    """Start haproxy that ends streams after so many seconds of silence."""
    port, settings = free_port(), tmp_path / "haproxy.cfg"

    def start(seconds: int) -> contextlib.AbstractContextManager[str]:
        address = live.url.removeprefix("http://")
        settings.write_text(CUTTING.format(port=port, address=address, seconds=seconds))
        return running([str(HAPROXY), "-db", "-f", str(settings)], port)

    return start


def change(
    live: service.Service, page: sync_api.Page, name: str, *, after_ms: int | None = None
) -> None:
    """Move a node, create and delete others; the page shows what the API has.

    :param after_ms: moves the clock of the page ahead, to its next poll.
    """
    live.provision(f"{name}-1", "manage", "manageable")
    live.create(f"{name}-3")
    assert live.ask("DELETE", f"/v1/nodes/{name}-2").status_code == 204
    if after_ms is not None:
        page.clock.fast_forward(after_ms)
    row(page, f"{name}-1").get_by_text("manageable", exact=True).wait_for()
    row(page, f"{name}-3").wait_for()
    row(page, f"{name}-2").wait_for(state="detached")
    there = [node["name"] for node in live.get("/v1/nodes?limit=1000")["nodes"]]
    wanted = sorted(one for one in there if str(one).startswith(f"{name}-"))
    expect(page.get_by_role("grid", name="Nodes").locator(".cell.name")).to_have_text(wanted)


def begin(live: service.Service, page: sync_api.Page, address: str, name: str) -> None:
    """Create two nodes and open the fleet that has them."""
    live.create(f"{name}-1")
    live.create(f"{name}-2")
    page.goto(f"{address}/ui/#/v1/nodes?~q={name}-")
    row(page, f"{name}-2").wait_for()


def begin_without_stream(
    live: service.Service, page: sync_api.Page, address: str, name: str
) -> None:
    """Begin, and let the time pass in which a stream must have its first line."""
    page.clock.install()
    with page.expect_request(lambda one: "follow=true" in one.url):
        begin(live, page, address, name)
    page.clock.fast_forward(FIRST_LINE_MS)


def wait_a_second(route: sync_api.Route) -> None:
    """Let the service wait for events no longer than this."""
    route.continue_(url=route.request.url.replace("wait=15", "wait=1"))


@needs_nginx
def test_proxy_that_keeps_streams_back_is_asked_with_a_wait(
    browser: sync_api.Browser, live: service.Service, buffering: Proxy, faults: Faults
) -> None:
    with buffering(60) as address:
        page = watched(browser, address, faults)
        page.route("**/v1/events?*wait=15", wait_a_second)
        with page.expect_request(lambda one: "wait=" in one.url):
            begin_without_stream(live, page, address, "kept")
        expect(page.locator(".connection")).to_contain_text("live")
        change(live, page, "kept")
        page.context.close()


@needs_nginx
def test_proxy_that_waits_for_nothing_is_asked_every_few_seconds(
    browser: sync_api.Browser, live: service.Service, buffering: Proxy, faults: Faults
) -> None:
    with buffering(4) as address:
        page = watched(browser, address, faults)
        begin_without_stream(live, page, address, "hasty")
        expect(page.locator(".connection")).to_contain_text("every 5 s")
        change(live, page, "hasty", after_ms=POLL_MS)
        page.context.close()
        faults.allow("504")


@needs_haproxy
def test_stream_that_is_cut_again_and_again_goes_on_where_it_was(
    browser: sync_api.Browser, live: service.Service, cutting: Proxy, faults: Faults
) -> None:
    with cutting(2) as address:
        page = watched(browser, address, faults)
        begin(live, page, address, "cuts")
        events = page.context.new_page()
        events.goto(f"{address}/ui/#/v1/events?node=cuts-1")
        for _ in range(2):
            with page.expect_request(lambda one: "follow=true" in one.url):
                pass
        change(live, page, "cuts")
        expect(page.locator(".connection")).to_contain_text("live")
        found = live.get("/v1/events?node=cuts-1&limit=1000&since=0")["events"]
        entries = {one["run"] or one["cursor"] for one in found}
        expect(events.locator(".activity li")).to_have_count(len(entries))
        expect(events.locator(".activity")).to_contain_text("done")
        page.context.close()
        faults.allow("ERR_INCOMPLETE_CHUNKED|504")


@needs_haproxy
def test_way_that_was_gone_is_told_and_what_happened_is_shown(
    browser: sync_api.Browser, live: service.Service, cutting: Proxy, faults: Faults
) -> None:
    with cutting(60) as address:
        page = watched(browser, address, faults)
        begin(live, page, address, "gone")
        expect(page.locator(".connection")).to_contain_text("live")
    expect(page.locator(".connection")).to_contain_text("offline")
    live.create("gone-4")
    with cutting(60):
        expect(page.locator(".connection")).to_contain_text("live")
        row(page, "gone-4").wait_for()
        change(live, page, "gone")
        page.context.close()
    faults.allow("net::ERR_")
