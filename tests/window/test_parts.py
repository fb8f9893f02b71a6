"""The page of all parts in all their states, without a service: it is drawn, and nothing fails."""

from __future__ import annotations

import functools
import http.server
import pathlib
import threading
from collections.abc import Iterator

import pytest
from playwright import sync_api

from scripts import window
from tests.window.conftest import Faults, watched
from tests.window.test_pages import violations


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a line for each request."""

    def log_message(self, *_given: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page of parts, which is built here."""
    if missing := window.install():
        pytest.skip(missing)
    folder: pathlib.Path = tmp_path_factory.mktemp("parts")
    window.bundle(folder, "parts")
    handler = functools.partial(Files, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_all_parts_are_drawn_in_all_states(
    browser: sync_api.Browser, origin: str, faults: Faults
) -> None:
    faults.allow(r"favicon\.ico")
    page = watched(browser, origin, faults)
    page.goto(f"{origin}/index.html")
    page.get_by_role("heading", name="Parts of the window").wait_for()
    names = page.locator("main > section > h2").all_inner_texts()
    assert {"States", "Results", "Run, overdue", "Plan, refused", "Acts"} <= set(names)
    assert len(names) == len(set(names)) > 15
    page.get_by_text("This page has no service.").wait_for(state="detached")
    assert "\u202e" not in page.inner_text("main")
    # The dialogs of this page are no dialogs, so their titles repeat an id.
    assert [text for text in violations(page, "main") if "duplicate-id" not in text] == []
    page.context.close()
