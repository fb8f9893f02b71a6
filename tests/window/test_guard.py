"""Other sites in the same browser: what they send is refused, and nobody else notices."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest
import requests
from playwright import sync_api

from tests.support import machine_room, service
from tests.window.acts import confirm, press, state, to
from tests.window.conftest import Faults, OpenPage, expect, watched

SEND = """async ([address, body]) => {
  const sent = { method: "POST", mode: "no-cors", body };
  try { return (await fetch(address, sent)).type } catch (error) { return String(error) }
}"""


class Page(http.server.BaseHTTPRequestHandler):
    """An empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>evil</title><p>Win a prize</p>")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def evil() -> Iterator[str]:
    """Another site on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_other_site_changes_nothing_and_shows_nothing(
    open_page: OpenPage, live: service.Service, evil: str, faults: Faults
) -> None:
    live.create("prey-1")
    page = open_page(live)
    page.goto(evil)
    media = f"{live.url}/v1/nodes/prey-1/vmedia?device_type=cdrom&image_url=http://evil.example/x"
    for address, body in ((media, None), (f"{live.url}/v1/nodes", '{"driver": "fake-hardware"}')):
        before = len(live.get("/v1/nodes")["nodes"])
        with page.expect_response(address) as answer:
            page.evaluate(SEND, [address, body])
        assert answer.value.status == 403
        assert len(live.get("/v1/nodes")["nodes"]) == before
    page.evaluate(
        "at => { const one = document.createElement('iframe'); one.src = at;"
        " document.body.append(one); }",
        f"{live.url}/ui/",
    )
    page.wait_for_function("() => frames.length === 1")
    (frame,) = page.main_frame.child_frames
    frame.wait_for_load_state()
    assert frame.locator(".brand").count() == 0
    faults.allow(".*")


def test_guard_leaves_clients_alone_and_refuses_a_foreign_host(live: service.Service) -> None:
    plain = requests.post(
        f"{live.url}/v1/nodes", json={"driver": "fake-hardware", "name": "tame-1"}, timeout=60
    )
    assert plain.status_code == 201
    rebound = requests.get(f"{live.url}/v1/nodes", headers={"Host": "evil.example"}, timeout=60)
    assert rebound.status_code == 403
    assert "allowed_hosts" in rebound.text


def test_real_ramdisk_agent_passes_the_guard_of_a_window_that_is_open(
    browser: sync_api.Browser, faults: Faults
) -> None:
    """The agent looks its node up and sends heartbeats by the address that the window has, too."""
    with machine_room.serve() as room:
        name = room.enrol(0)
        page = watched(browser, room.up.url, faults)
        page.goto(to(room.up, f"/v1/nodes/{name}"))
        press(page, "Provide…")
        confirm(page, f"Provide {name}", typed=name)
        state(page, "clean wait").wait_for()
        page.locator(".waits").get_by_text("Waits for the").wait_for()
        state(page, "available").wait_for()
        expect(page.locator(".steps li").first).to_have_class("done")
        page.get_by_role("link", name="Log", exact=True).click()
        page.get_by_role("log").get_by_text("erase_devices").first.wait_for()
        assert room.rack[0].agent.ran()
        page.context.close()
