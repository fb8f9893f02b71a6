"""The page of a node: its head, the act that comes next, its menus and its tabs."""

from __future__ import annotations

import re

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import act, confirm, press, refused, row, state, to, unfold, write
from tests.window.conftest import Faults, OpenPage, expect
from tests.window.test_pages import lost, violations

TABS = {
    "": "Overview",
    "/why": "Overview",
    "/runs": "Activity",
    "/history": "Activity",
    "/holds": "Activity",
    "/erasures": "Activity",
    "?~tab=log": "Activity",
    "/inventory": "Hardware",
    "/bios": "Hardware",
    "?~tab=fields": "Settings",
    "/ports": "Settings",
    "/states": "Console",
    "/states/console": "Console",
}
"""Addresses below a node, also those of bookmarks, and their tabs."""
DISK = {
    "name": "/dev/sda",
    "serial": "S-1",
    "model": "PM883",
    "size": 960_197_124_096,
    "result": "erased",
    "level": "clear",
}


def inspected(live: service.Service, name: str) -> str:
    """Create a node that knows its hardware; return its UUID."""
    facts = {"extra": {"rack": "r07"}, "properties": {"vendor": "Dell", "model": "R640"}}
    more = {**facts, "resource_class": "gpu", "owner": "team-b"}
    # A port has an address that no other node has.
    info = {"fake_erasures": [DISK], "fake_ports": [f"52:54:00:00:07:{ord(name[0]) % 100:02}"]}
    uuid = live.create(name, driver_info=info, **more)
    live.provision(name, "manage", "manageable")
    live.provision(name, "inspect", "manageable")
    return uuid


def test_each_address_leads_to_its_tab(page: sync_api.Page, live: service.Service) -> None:
    inspected(live, "tab-1")
    tabs = page.get_by_role("navigation", name="Parts of the node")
    for below, tab in TABS.items():
        page.goto(to(live, f"/v1/nodes/tab-1{below}"))
        expect(tabs.locator("[aria-current]")).to_have_text(tab)
        page.get_by_role("region", name=tab, exact=True).wait_for()
    expect(tabs.get_by_role("link")).to_have_count(5)
    page.goto(to(live, "/v1/nodes/tab-1/constructor"))
    page.get_by_text("There is no page for this path.").wait_for()


def test_head_names_the_machine(page: sync_api.Page, live: service.Service) -> None:
    uuid = inspected(live, "head-1")
    address = "https://root:hidden@10.0.3.7:8443/redfish/v1"
    patch = [{"op": "add", "path": "/driver_info/redfish_address", "value": address}]
    assert live.ask("PATCH", "/v1/nodes/head-1", patch).status_code == 200
    write(live, "UPDATE nodes SET health = 'Critical' WHERE uuid = ?", uuid)
    page.goto(to(live, "/v1/nodes/head-1"))
    head = page.locator(".identity")
    for text in ("Machine Dell R640", "Rack r07", "BMC 10.0.3.7", "Driver fake-hardware"):
        expect(head).to_contain_text(text)
    for text in ("Class gpu", "Owner team-b", "Data unknown", "Critical"):
        expect(head).to_contain_text(text)
    expect(head).not_to_contain_text("hidden")


def test_one_act_comes_next_and_menus_have_the_others(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("next-1")
    page.goto(to(live, "/v1/nodes/next-1"))
    acts = page.get_by_role("group", name="Acts on this node")
    expect(acts.locator("> button")).to_have_text(["Manage…"])
    press(page, "Manage…")
    confirm(page, "Manage next-1")
    expect(acts.locator("> button")).to_have_text(["Provide…"])
    clean = act(page, "Clean…")
    unfold(clean)
    expect(clean).to_contain_text("runs the steps that you choose; leads to manageable")
    page.keyboard.press("Escape")
    expect(clean).to_be_hidden()
    assert live.ask("POST", "/v1/nodes/next-1/holds", {"kind": "legal", "reason": "case 5"})
    button = refused(page, "Clean…")
    unfold(button)
    expect(button.get_by_text("Held (legal): case 5")).to_be_visible()


def test_menus_violate_no_rule_and_fit_a_phone(open_page: OpenPage, live: service.Service) -> None:
    live.create("fit-1")
    live.provision("fit-1", "manage", "manageable")
    hold = {"kind": "freeze", "reason": "W" * 200}
    assert live.ask("POST", "/v1/nodes/fit-1/holds", hold).status_code == 201
    page = open_page(live, viewport={"width": 390, "height": 844})
    page.goto(to(live, "/v1/nodes/fit-1"))
    for name in ("Power", "···"):
        menu = page.locator("main .menu", has=page.locator("summary", has_text=name))
        menu.locator("summary").click()
        menu.get_by_role("button").first.wait_for()
        assert violations(page) == []
        assert lost(page) == []
        page.keyboard.press("Escape")


def test_menu_is_used_by_keyboard_alone(page: sync_api.Page, live: service.Service) -> None:
    live.create("typed-menu")
    page.goto(to(live, "/v1/nodes/typed-menu"))
    state(page, "enroll").wait_for()
    page.keyboard.press(".")
    expect(act(page, "Manage…")).to_be_focused()
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(act(page, "Hold…")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Hold typed-menu").wait_for()


def test_typed_patch_stays_while_a_verb_begins(page: sync_api.Page, live: service.Service) -> None:
    live.create("draft-1")
    page.goto(to(live, "/v1/nodes/draft-1?~tab=settings"))
    page.get_by_text("Change fields").click()
    text = '[{"op": "add", "path": "/owner", "value": "team-c"}]'
    patch = page.get_by_label("JSON Patch")
    patch.fill(text)
    press(page, "Manage…")
    confirm(page, "Manage draft-1")
    state(page, "manageable").wait_for()
    expect(patch).to_have_value(text)
    # A run of the past is left for the one that begins.
    (past,) = live.get("/v1/nodes/draft-1/runs")["runs"]
    page.goto(to(live, f"/v1/nodes/draft-1/runs/{past['uuid']}"))
    press(page, "Provide…")
    confirm(page, "Provide draft-1", typed="draft-1")
    state(page, "available").wait_for()
    assert page.url.endswith("#/v1/nodes/draft-1")


def test_lock_moves_nothing(page: sync_api.Page, live: service.Service) -> None:
    uuid = live.create("chip-1")
    page.goto(to(live, "/v1/nodes/chip-1"))
    page.get_by_role("list", name="States").wait_for()
    tabs = page.get_by_role("navigation", name="Parts of the node")
    before = tabs.bounding_box()
    lock = "UPDATE nodes SET reservation = ?, lock_token = ?, lock_expires = ? WHERE uuid = ?"
    write(live, lock, f"conductor-{uuid}", uuid, "2099-01-01 00:00:00.000000", uuid)
    page.reload()
    expect(page.locator(".lock")).to_be_visible()
    expect(page.locator(".lock")).to_contain_text(f"by conductor-{uuid}")
    page.get_by_role("list", name="States").wait_for()
    assert tabs.bounding_box() == before
    write(live, lock, None, None, None, uuid)


def test_hardware_is_shown_as_facts(page: sync_api.Page, live: service.Service) -> None:
    inspected(live, "facts-1")
    page.goto(to(live, "/v1/nodes/facts-1/inventory"))
    disks = page.get_by_role("region", name="Disks").locator("tbody").get_by_role("row")
    expect(disks).to_have_text(["/dev/sda960 GBPM883S-1"])
    cards = page.get_by_role("region", name="Network cards").locator("tbody").get_by_role("row")
    expect(cards).to_have_text(["eth052:54:00:00:07:02yes"])
    hardware = page.get_by_role("region", name="Hardware", exact=True)
    expect(hardware).to_contain_text("Memory16 GiB")
    expect(hardware).to_contain_text("Dell R640")
    expect(hardware.locator("code", has_text="x86_64")).to_have_count(0)
    hardware.get_by_text("JSON of").click()
    expect(hardware.locator("code", has_text="x86_64")).to_have_count(1)


def test_machines_are_listed_by_their_health(page: sync_api.Page, live: service.Service) -> None:
    for name, health in (("sick-1", "OK"), ("sick-2", "Critical"), ("sick-3", "Warning")):
        uuid = live.create(name)
        write(live, "UPDATE nodes SET health = ? WHERE uuid = ?", health, uuid)
    page.goto(to(live, "/v1/nodes?~q=sick-&~sort=health&~cols=name,health"))
    cells = page.locator(".grid .cell.name")
    expect(cells).to_have_text(["sick-2", "sick-3", "sick-1"])
    expect(row(page, "sick-2")).to_contain_text("Critical")
    field = page.get_by_role("searchbox")
    field.fill("sick- health:warning")
    field.press("Enter")
    page.get_by_role("button", name="health: Warning").wait_for()
    expect(cells).to_have_text(["sick-3"])


def test_words_are_explained_from_the_help(page: sync_api.Page, live: service.Service) -> None:
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("button", name="Help and shortcuts").click()
    page.get_by_role("dialog").get_by_role("link", name="The words of the window").click()
    page.get_by_role("heading", name="Words").wait_for()
    expect(page.get_by_role("dialog")).to_have_count(0)
    hold = page.locator("dt", has_text=re.compile("^hold$")).locator("+ dd")
    expect(hold).to_contain_text("legal: its data stay")
    page.get_by_role("definition").get_by_role("link", name="runs", exact=True).click()
    page.get_by_role("heading", name="Runs").wait_for()


def test_tabs_open_while_the_service_is_away(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("late-tab")
    with page.expect_response(lambda one: one.url.endswith("/words.js")):
        page.goto(to(live, "/v1/nodes/late-tab"))
    page.get_by_role("list", name="States").wait_for()
    page.route("**/v1/**", lambda route: route.abort())
    faults.allow("ERR_FAILED|net::ERR")
    page.get_by_role("link", name="Hardware", exact=True).click()
    page.get_by_text("Not inspected yet.").wait_for()
    tabs = page.get_by_role("navigation", name="Parts of the node")
    tabs.get_by_role("link", name="Settings").click()
    page.get_by_role("form", name="Settings of late-tab").wait_for()


@pytest.mark.parametrize("health", ["Warning", "Critical"])
def test_machines_of_one_health_are_listed(
    page: sync_api.Page, live: service.Service, health: str
) -> None:
    name = f"health-{health.lower()}"
    uuid = live.create(name)
    write(live, "UPDATE nodes SET health = ? WHERE uuid = ?", health, uuid)
    page.goto(to(live, f"/v1/nodes/{name}/inventory"))
    page.get_by_role("link", name="all machines with this health").click()
    page.get_by_role("grid", name="Nodes").get_by_role("link", name=name).wait_for()
