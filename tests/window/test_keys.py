"""Keys and settings of the window: shortcuts, the palette, saved views."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import cold, dialog_of, failed_node, row, state, to
from tests.window.conftest import expect

KEEP = "document.addEventListener('copy', () => { window.kept = String(getSelection()); })"
# Without TLS and by address there is no clipboard, and copies are selections.
WITHOUT_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined });" + KEEP


def test_keys_lead_to_run_log_and_acts_of_a_node(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("keyed-1")
    live.provision("keyed-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/keyed-1/ports"))
    state(page, "manageable").wait_for()
    page.keyboard.press("l")
    page.get_by_role("log").wait_for()
    page.keyboard.press("w")
    page.get_by_role("list", name="Steps").wait_for()
    page.keyboard.press(".")
    expect(page.locator(".actions button").first).to_be_focused()
    page.keyboard.press("4")
    page.get_by_role("region", name="Settings").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.get_by_role("heading", name="Doctor").wait_for()


def test_keys_of_the_table_work_on_a_fresh_page(page: sync_api.Page, live: service.Service) -> None:
    names = ["fresh-1", "fresh-2", "fresh-3"]
    for name in names:
        live.create(name)
    boxes = page.locator(".body .row").get_by_role("checkbox")
    cold(page, live, "/v1/nodes?~q=fresh-&~sort=name")
    expect(page.locator(".cell.name")).to_have_text(names)
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("x")
    expect(boxes.nth(0)).to_be_checked()
    expect(page.get_by_role("grid", name="Nodes")).to_be_focused()
    cold(page, live, "/v1/nodes?~q=fresh-&~sort=name")
    expect(page.locator(".cell.name")).to_have_text(names)
    for key in "jjkx":
        page.keyboard.press(key)
    expect(boxes.nth(1)).to_be_checked()
    expect(boxes.nth(2)).not_to_be_checked()
    cold(page, live, "/v1/nodes?~q=fresh-&~sort=name")
    expect(page.locator(".cell.name")).to_have_text(names)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="fresh-1").wait_for()


def test_enter_on_a_link_follows_the_link_beside_a_table(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("led-1")
    cold(page, live, "/v1/nodes?~q=led-1")
    row(page, "led-1").wait_for()
    page.get_by_role("link", name="Doctor", exact=True).press("Enter")
    page.get_by_role("heading", name="Doctor").wait_for()


def test_keys_work_while_a_ticked_box_has_the_focus(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("boxed-1", "boxed-2"):
        live.create(name)
    page.goto(to(live, "/v1/nodes?~q=boxed-&~sort=name"))
    boxes = page.locator(".body .row").get_by_role("checkbox")
    boxes.nth(1).click()
    expect(boxes.nth(1)).to_be_checked()
    expect(boxes.nth(1)).to_be_focused()
    page.keyboard.press(" ")
    expect(boxes.nth(1)).not_to_be_checked()
    page.keyboard.press("x")
    expect(boxes.nth(1)).to_be_checked()
    for key in "kx":
        page.keyboard.press(key)
    expect(boxes.nth(0)).to_be_checked()
    page.keyboard.press(".")
    selected = page.get_by_role("region", name="Selected nodes")
    expect(selected.get_by_role("button").first).to_be_focused()
    boxes.nth(1).focus()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Shortcuts").wait_for()
    page.keyboard.press("Escape")
    boxes.nth(1).focus()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    boxes.nth(1).focus()
    for key in "gd":
        page.keyboard.press(key)
    page.get_by_role("heading", name="Doctor").wait_for()


def test_keys_of_one_character_can_be_switched_off(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, "/v1/whoami"))
    page.get_by_label("Shortcuts of one character").uncheck()
    page.locator("main").click()
    for key in ("?", ":", "g", "d"):
        page.keyboard.press(key)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_have_count(1)
    page.get_by_role("dialog", name="Find").wait_for()
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()


def test_long_lists_of_the_settings_page_are_folded(
    page: sync_api.Page, live: service.Service
) -> None:
    rules = live.get("/v1/whoami")["rules"]
    page.goto(to(live, "/v1/whoami"))
    folded = page.get_by_text(f"{len(rules)} values", exact=True).first
    expect(page.get_by_text(rules[-1], exact=True).first).to_be_hidden()
    folded.click()
    page.get_by_text(rules[-1], exact=True).first.wait_for()


def test_palette_of_a_page_opened_cold_finds_nodes_and_their_verbs(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("find-1")
    live.create("find-2")
    cold(page, live, "/v1/nodes/find-1")
    page.keyboard.press("Control+k")
    page.keyboard.type("find-2")
    page.get_by_role("option", name="find-2 enroll").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="find-2").wait_for()
    page.keyboard.press("Control+k")
    page.keyboard.type("manage find-2")
    page.get_by_role("option", name="Manage find-2 verb").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Manage find-2").wait_for()


def test_copies_by_key_are_those_of_the_row_and_of_the_page(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("copied-1")
    page.add_init_script(WITHOUT_CLIPBOARD)
    page.goto(to(live, "/v1/nodes?driver=fake-hardware&~q=copied-1"))
    row(page, "copied-1").wait_for()
    for focus, path in (("grid", "/v1/nodes/copied-1"), ("main", "/v1/nodes?driver=fake-hardware")):
        page.get_by_role("grid" if focus == "grid" else "main").first.focus()
        page.keyboard.press("c")
        expect(page.get_by_role("status").last).to_have_text("Copied.")
        text = page.evaluate("window.kept")
        assert shlex.split(text.rpartition('"$api"')[2]) == [path]
        done = subprocess.run(["sh", "-ec", text], capture_output=True, timeout=60, check=True)
        assert json.loads(done.stdout) == live.get(path)


def saved_view(page: sync_api.Page, live: service.Service) -> str:
    """Save a view of the fleet by the palette; return its address."""
    address = "/v1/nodes?resource_class=gpu&~q=rack3"
    page.goto(to(live, address))
    page.get_by_role("grid", name="Nodes").wait_for()
    page.keyboard.press("Control+k")
    page.keyboard.type("save")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Save this view")
    dialog.get_by_label("Name").fill(address)
    dialog.get_by_role("button", name="Save", exact=True).click()
    expect(dialog).to_have_count(0)
    return address


def test_saved_views_are_found_again_and_removed(
    page: sync_api.Page, live: service.Service
) -> None:
    address = saved_view(page, live)
    page.goto(to(live, "/v1/doctor"))
    page.reload()
    page.keyboard.press("Control+k")
    page.keyboard.type("rack3")
    page.get_by_role("option", name=address).click()
    expect(page.get_by_role("searchbox")).to_have_value("rack3")
    page.goto(to(live, "/v1/whoami"))
    expect(page.get_by_role("link", name=address)).to_have_attribute("href", f"#{address}")
    page.get_by_role("button", name="remove").click()
    expect(page.get_by_role("link", name=address)).to_have_count(0)


def test_saved_views_are_taken_to_another_browser(
    page: sync_api.Page, live: service.Service, browser: sync_api.Browser
) -> None:
    address = saved_view(page, live)
    page.goto(to(live, "/v1/whoami"))
    page.get_by_text("Export and import").click()
    text = page.get_by_label("Saved views, as JSON").input_value()
    assert list(json.loads(text).values()) == [f"#{address}"]
    other = browser.new_context().new_page()
    other.goto(to(live, "/v1/whoami"))
    other.get_by_text("Export and import").click()
    strange = {"bad": "javascript:alert(1)", "number": 1}
    given = json.dumps({**json.loads(text), **strange})
    other.get_by_label("Saved views, as JSON").fill(given)
    other.get_by_role("button", name="Import").click()
    link = other.get_by_role("link", name=address)
    expect(link).to_have_attribute("href", f"#{address}")
    assert "javascript" not in other.evaluate("JSON.stringify({...localStorage})")
    link.click()
    expect(other.get_by_role("searchbox")).to_have_value("rack3")
    other.context.close()


def test_plan_is_copied_and_refused_with_its_faults(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "planned-1")
    dialog = dialog_of(page, live, "planned-1", "Retry…")
    dialog.locator(".plan li").first.wait_for()
    text = dialog.get_by_role("button", name="Copy as curl: POST").get_attribute("title") or ""
    done = subprocess.run(["sh", "-ec", text], capture_output=True, timeout=60, check=True)
    steps = json.loads(done.stdout)["steps"]
    expect(dialog.locator(".plan li")).to_have_count(len(steps))


@pytest.mark.own_context
def test_rows_stay_where_the_focus_is_and_changes_are_counted(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("stay-1", "stay-2"):
        live.create(name)
    page.clock.install()
    page.goto(to(live, "/v1/nodes?~q=stay-"))
    names = page.locator(".cell.name")
    expect(names).to_have_text(["stay-1", "stay-2"])
    page.get_by_role("grid", name="Nodes").focus()
    live.create("stay-0")
    live.provision("stay-1", "manage", "manageable")
    row(page, "stay-1").get_by_text("manageable", exact=True).wait_for()
    expect(page.locator(".footer")).to_contain_text("paused while you point here")
    expect(names).to_have_text(["stay-1", "stay-2"])
    page.clock.fast_forward(10_000)
    expect(page.get_by_role("status", name="Changes")).to_contain_text("changes in 10 seconds")
    page.get_by_role("searchbox").focus()
    expect(names).to_have_text(["stay-0", "stay-1", "stay-2"])
    expect(page.locator(".footer")).not_to_contain_text("paused while you point here")
