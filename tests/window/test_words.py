"""What an operator reads in the window: filters that say so, outcomes, and times."""

from __future__ import annotations

import re

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import confirm, failed_node, press, row, shown, to
from tests.window.conftest import OpenPage, expect

pytestmark = pytest.mark.xdist_group("window")


def test_numbers_of_attention_are_filters_that_one_chip_clears(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("word-1")
    live.create("word-2")
    hold = {"kind": "freeze", "reason": "smoke in row 2"}
    assert live.ask("POST", "/v1/nodes/word-1/holds", hold).status_code == 201
    page.goto(to(live, "/v1/nodes"))
    attention = page.locator(".attention")
    expect(attention.get_by_role("listitem").filter(has_text="word-1")).to_contain_text("smoke")
    attention.get_by_role("link", name="held").click()
    row(page, "word-1").wait_for()
    expect(row(page, "word-2")).to_have_count(0)
    page.get_by_role("searchbox").fill("no such name")
    page.get_by_text("No node matches").wait_for()
    page.locator(".chips").get_by_role("button", name=re.compile(r"^all \d")).click()
    expect(page.get_by_role("searchbox")).to_have_value("")
    assert "held" not in page.url
    page.get_by_role("searchbox").fill("word-")  # A long table draws the rows on the screen alone.
    row(page, "word-2").wait_for()
    assert live.ask("DELETE", f"/v1/nodes/word-1/holds/{held(live)}").status_code == 204


def held(live: service.Service) -> str:
    """Return the UUID of the hold in force of the first node."""
    (one,) = live.get("/v1/nodes/word-1/holds")["holds"]
    return str(one["uuid"])


def test_retry_that_fails_again_is_told(page: sync_api.Page, live: service.Service) -> None:
    failed_node(live, "twice-1")
    page.goto(to(live, "/v1/nodes/twice-1"))
    press(page, "Retry…")
    confirm(page, "Retry twice-1", typed="twice-1")
    expect(page.locator(".live")).to_contain_text("Retry of twice-1: failed")
    expect(page.locator(".run")).to_contain_text("The retry failed again, with the same cause.")
    expect(page.get_by_role("table")).to_contain_text("provide, retry")


def test_times_are_local_with_their_zone_and_utc_in_the_title(
    open_page: OpenPage, live: service.Service
) -> None:
    failed_node(live, "zone-1")
    page = open_page(live, timezone_id="Asia/Tokyo")
    page.goto(to(live, "/v1/nodes/zone-1/runs"))
    shown(page)
    begun = page.locator("td time").first
    expect(begun).to_have_text(re.compile(r"\d\d:\d\d:\d\d (GMT\+9|JST)"))
    expect(begun).to_have_attribute("title", re.compile("UTC$"))
    page.get_by_role("link", name="Log", exact=True).click()
    line = page.get_by_role("log").locator("time").first
    hours = int((line.inner_text()).partition(":")[0])
    there = int((line.get_attribute("title") or "")[11:13])
    assert hours == (there + 9) % 24
