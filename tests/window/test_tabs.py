"""Several tabs of one browser: its connections, and what hidden tabs hold."""

from __future__ import annotations

import re

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import row, to
from tests.window.conftest import Faults, OpenPage, expect

TABS = 8
STREAMS = 4
POLL_MS = 5000
HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


class Streams:
    """Streams of events that a page has opened and not ended."""

    def __init__(self, page: sync_api.Page) -> None:
        self.open: set[sync_api.Request] = set()
        page.on("request", self._begun)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)

    def _begun(self, asked: sync_api.Request) -> None:
        if "follow=true" in asked.url:
            self.open.add(asked)

    def _ended(self, asked: sync_api.Request) -> None:
        self.open.discard(asked)


# Plain HTTP by address is no secure context, where browsers have no locks.
WITHOUT_LOCKS = "Object.defineProperty(navigator, 'locks', { value: undefined });"


def test_eighth_tab_loads_and_all_tabs_share_few_streams(
    open_page: OpenPage, live: service.Service
) -> None:
    live.create("tabs-1")
    first = open_page(live)
    first.context.clock.install()
    pages = [first, *(first.context.new_page() for _ in range(TABS - 1))]
    streams = [Streams(page) for page in pages]
    for page in pages:
        page.goto(to(live, "/v1/nodes?~q=tabs-"))
        row(page, "tabs-1").wait_for()
        expect(page.locator(".connection")).to_contain_text(re.compile("live|every 5 s"))
    assert sum(len(one.open) for one in streams) == STREAMS
    expect(pages[-1].locator(".connection")).to_contain_text("every 5 s")
    live.provision("tabs-1", "manage", "manageable")
    first.context.clock.fast_forward(POLL_MS)
    for page in pages:
        row(page, "tabs-1").get_by_text("manageable", exact=True).wait_for()
    for page in pages[:STREAMS]:
        page.close()
    pages[-1].context.clock.fast_forward(POLL_MS)
    expect(pages[-1].locator(".connection")).to_contain_text("live")


def test_tab_takes_no_stream_of_tabs_that_are_too_busy_to_answer(
    open_page: OpenPage, live: service.Service
) -> None:
    live.create("stuck-1")
    first = open_page(live)
    pages = [first, *(first.context.new_page() for _ in range(STREAMS))]
    streams = [Streams(page) for page in pages]
    *holders, last = pages
    held: list[sync_api.Dialog] = []

    def hold(dialog: sync_api.Dialog) -> None:
        held.append(dialog)  # Until it is dismissed, its tab does nothing else.

    for page in holders:
        page.goto(to(live, "/v1/nodes?~q=stuck-"))
        expect(page.locator(".connection")).to_contain_text("live")
        page.on("dialog", hold)
        with page.expect_event("dialog"):
            page.evaluate("() => void setTimeout(() => alert('busy'))")
    last.goto(to(live, "/v1/nodes?~q=stuck-"))
    expect(last.locator(".connection")).to_contain_text("every 5 s")
    assert [len(one.open) for one in streams] == [1] * STREAMS + [0]
    for dialog in held:
        dialog.dismiss()


def test_tabs_without_locks_leave_connections_for_each_other(
    open_page: OpenPage, live: service.Service
) -> None:
    live.create("plain-1")
    first = open_page(live)
    first.context.add_init_script(WITHOUT_LOCKS)
    first.context.clock.install()
    pages = [first, *(first.context.new_page() for _ in range(TABS - 1))]
    for page in pages:
        page.goto(to(live, "/v1/nodes?~q=plain-"))
        row(page, "plain-1").wait_for()
        expect(page.locator(".connection")).to_contain_text(re.compile("live|every 5 s"))
    expect(pages[-1].locator(".connection")).to_contain_text("every 5 s")
    live.provision("plain-1", "manage", "manageable")
    first.context.clock.fast_forward(POLL_MS)
    for page in pages:
        row(page, "plain-1").get_by_text("manageable", exact=True).wait_for()


def test_tabs_without_locks_end_streams_that_a_busy_tab_told_too_late(
    open_page: OpenPage, live: service.Service
) -> None:
    live.create("late-tab-1")
    first = open_page(live)
    first.context.add_init_script(WITHOUT_LOCKS)
    pages = [first, *(first.context.new_page() for _ in range(STREAMS))]
    streams = [Streams(page) for page in pages]
    *holders, last = pages
    held: list[sync_api.Dialog] = []

    def hold(dialog: sync_api.Dialog) -> None:
        held.append(dialog)  # Until it is dismissed, its tab answers no other one.

    for page in holders:
        page.goto(to(live, "/v1/nodes?~q=late-"))
        expect(page.locator(".connection")).to_contain_text("live")
        page.on("dialog", hold)
        with page.expect_event("dialog"):
            page.evaluate("() => void setTimeout(() => alert('busy'))")
    last.goto(to(live, "/v1/nodes?~q=late-"))
    expect(last.locator(".connection")).to_contain_text("live")
    assert [len(one.open) for one in streams] == [1] * len(pages), "one too many"
    for dialog in held:
        dialog.dismiss()
    service.until(
        lambda: last.evaluate("() => 1") and sum(len(one.open) for one in streams) == STREAMS,
        "as many streams as the tabs may have",
    )
    live.provision("late-tab-1", "manage", "manageable")
    for page in pages:
        row(page, "late-tab-1").get_by_text("manageable", exact=True).wait_for()


@pytest.mark.own_context
def test_hidden_tab_gives_its_stream_back_and_misses_nothing(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("hidden-1")
    streams = Streams(page)
    page.clock.install()
    page.goto(to(live, "/v1/nodes?~q=hidden-"))
    row(page, "hidden-1").wait_for()
    expect(page.locator(".connection")).to_contain_text("live")
    assert len(streams.open) == 1
    page.evaluate(HIDE, True)
    with page.expect_event("requestfailed"):
        page.clock.fast_forward(11_000)
    assert streams.open == set()
    live.provision("hidden-1", "manage", "manageable")
    page.evaluate(HIDE, False)
    row(page, "hidden-1").get_by_text("manageable", exact=True).wait_for()
    faults.allow("ERR_ABORTED")


def test_page_says_live_after_it_left_another(page: sync_api.Page, live: service.Service) -> None:
    live.create("left-1")
    page.goto(to(live, "/v1/nodes?~q=left-"))
    connection = page.locator(".connection")
    row(page, "left-1").wait_for()
    expect(connection).to_contain_text("live")
    with page.expect_response(lambda one: "follow=true" in one.url and "node=" in one.url):
        page.get_by_role("link", name="left-1").click()
    with page.expect_event("requestfailed", lambda asked: "follow=true" in asked.url):
        page.go_back()
    row(page, "left-1").wait_for()
    expect(connection).to_contain_text("live", timeout=1)
