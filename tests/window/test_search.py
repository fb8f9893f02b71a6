"""The window finds machines by what an operator knows of them, in the list and by Find."""

from __future__ import annotations

import pytest
from playwright import sync_api

from tests.support import http_nodes, service
from tests.window.acts import cold, row, to
from tests.window.conftest import expect


def find(page: sync_api.Page, words: str) -> None:
    """Open Find, and type words."""
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Pages, nodes and verbs").fill(words)


def test_filter_finds_rows_by_values_that_only_the_service_knows(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("sought-1", extra={"asset": "AX-4711"}, owner="team-blue")
    live.create("sought-2", extra={"asset": "AX-4712"}, owner="team-red")
    page.goto(to(live, "/v1/nodes?~q=sought-"))
    row(page, "sought-2").wait_for()
    page.get_by_role("searchbox").fill("ax-4711")
    expect(row(page, "sought-1")).to_contain_text("asset AX-4711")
    expect(row(page, "sought-2")).to_have_count(0)
    page.get_by_role("searchbox").fill("ax-47")
    row(page, "sought-2").wait_for()
    page.get_by_role("searchbox").fill("team-bl")
    row(page, "sought-1").wait_for()
    expect(row(page, "sought-2")).to_have_count(0)
    page.get_by_role("searchbox").fill("zz-nothing")
    page.get_by_text("No node matches.").wait_for()


def test_hits_keep_to_the_other_filters(page: sync_api.Page, live: service.Service) -> None:
    live.create("kept-1", extra={"asset": "KX-1"}, resource_class="blue")
    live.create("kept-2", extra={"asset": "KX-2"}, resource_class="red")
    page.goto(to(live, "/v1/nodes?resource_class=blue&~q=kx-"))
    row(page, "kept-1").wait_for()
    expect(row(page, "kept-2")).to_have_count(0)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("52:54:00:5e:a7:01", "MAC 52:54:00:5e:a7:01"),
        ("52-54-00-5E-A7-01", "MAC 52:54:00:5e:a7:01"),
        ("pm-77", "asset PM-77"),
        ("192.0.2.77", "BMC 192.0.2.77"),
    ],
)
def test_find_leads_to_a_node_by_its_values(
    page: sync_api.Page, live: service.Service, words: str, hint: str
) -> None:
    if live.get("/v1/nodes/palette-1") is None:
        info = {"redfish_address": "https://192.0.2.77"}
        node = live.create("palette-1", extra={"asset": "PM-77"}, driver_info=info)
        http_nodes.add_port(live, node, "52:54:00:5e:a7:01")
    cold(page, live, "/v1/runs")
    find(page, words)
    page.get_by_role("option", name=f"palette-1 {hint}").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="palette-1").wait_for()


def test_enter_after_the_exact_name_opens_the_node_and_no_act(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("exact-1")
    live.create("exact-10")
    cold(page, live, "/v1/nodes/exact-1")
    page.get_by_role("heading", name="exact-1").wait_for()
    find(page, "exact-1")
    options = page.get_by_role("option")
    expect(options.first).to_have_text("exact-1 enroll")
    expect(options.nth(1)).to_have_text("exact-10 enroll")
    expect(page.get_by_role("option", name="Manage exact-1 verb")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.url.endswith("/v1/nodes/exact-1")


def test_find_has_acts_by_their_words(page: sync_api.Page, live: service.Service) -> None:
    live.create("acts-1")
    cold(page, live, "/v1/runs")
    find(page, "enroll")
    page.get_by_role("option", name="Enroll… act").click()
    page.get_by_role("dialog", name="Enroll").wait_for()
    page.keyboard.press("Escape")
    find(page, "clean")
    page.get_by_role("option", name="Clean… choose nodes").click()
    page.get_by_role("grid", name="Nodes").wait_for()
    assert "provision_state=manageable" in page.url
    find(page, "manage acts-1")
    page.get_by_role("option", name="Manage acts-1 verb").click()
    page.get_by_role("dialog", name="Manage acts-1").wait_for()


def test_machine_is_retired_by_find(page: sync_api.Page, live: service.Service) -> None:
    live.create("old-iron-1")
    cold(page, live, "/v1/nodes/old-iron-1")
    find(page, "retire")
    page.get_by_role("option", name="Retire old-iron-1 act").click()
    service.until(lambda: live.get("/v1/nodes/old-iron-1")["retired"], "retired")


def test_box_of_find_stays_in_its_place(page: sync_api.Page, live: service.Service) -> None:
    cold(page, live, "/v1/nodes")
    find(page, "")
    box = page.get_by_role("combobox", name="Pages, nodes and verbs")
    before = box.bounding_box()
    for words in ("s", "zzz-none", "fleet"):
        box.fill(words)
        page.wait_for_timeout(200)
        assert box.bounding_box() == before
