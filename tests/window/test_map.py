"""The map of the fleet: groups, what squares show, selection by keys and by the pointer."""

from __future__ import annotations

import re

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import row, to, write
from tests.window.conftest import Faults

expect = sync_api.expect


@pytest.fixture(scope="module")
def racks(live: service.Service) -> list[str]:
    """The names of six nodes: two names with three nodes each, and two racks."""
    names = [f"map{name}-u{unit}" for name in (1, 2) for unit in (1, 2, 3)]
    for at, name in enumerate(names):
        rack = {"extra": {"rack": f"hall {at % 2}"}} if at else {}
        uuid = live.create(name, resource_class="mapped", **rack)
        link = {
            "switch_id": "00:00:00:00:00:01",
            "port_id": str(at),
            "switch_info": f"leaf-{at % 3}",
        }
        port = {"node_uuid": uuid, "address": f"52:54:00:0a:00:0{at}"}
        answer = live.ask("POST", "/v1/ports", {**port, "local_link_connection": link})
        assert answer.status_code == 201, answer.text
    return names


MAP = "/v1/nodes?resource_class=mapped&~map=name"


def squares_of(page: sync_api.Page) -> sync_api.Locator:
    return page.get_by_role("listbox", name="Nodes on the map")


def counted(page: sync_api.Page) -> sync_api.Locator:
    return page.get_by_role("list", name="Nodes on the map, counted").get_by_role("listitem")


@pytest.mark.usefixtures("racks")
def test_keys_select_on_the_map_what_the_list_selects(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, "/v1/nodes?resource_class=mapped"))
    row(page, "map1-u1").get_by_role("checkbox").check()
    page.get_by_role("button", name="Map", exact=True).click()
    expect(counted(page)).to_have_text(["map1: 3 enroll", "map2: 3 enroll"])
    expect(page.get_by_role("grid", name="Nodes")).to_have_count(0)
    squares = squares_of(page)
    squares.focus()
    option = squares.get_by_role("option")
    expect(option).to_have_text("map1-u1, map1, enroll")
    expect(option).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    bulk = page.get_by_role("region", name="Selected nodes")
    expect(bulk).to_contain_text("3 selected")
    page.keyboard.press("End")
    expect(option).to_have_text("map2-u3, map2, enroll")
    expect(option).to_have_attribute("aria-posinset", "6")
    page.keyboard.press("Space")
    expect(bulk).to_contain_text("4 selected")
    page.keyboard.press("Space")
    expect(bulk).to_contain_text("3 selected")
    page.keyboard.press("Control+a")
    expect(bulk).to_contain_text("6 selected")
    bulk.get_by_role("button", name="Batch…").click()
    page.get_by_role("dialog", name="Batch of 6 nodes").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Map", exact=True).click()
    expect(row(page, "map2-u3").get_by_role("checkbox")).to_be_checked()
    page.get_by_role("button", name="Map", exact=True).click()
    squares.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="map1-u1").wait_for()
    page.go_back()
    expect(bulk).to_contain_text("6 selected")


@pytest.mark.usefixtures("racks")
def test_pointer_draws_a_frame_that_selects_and_clears(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, MAP))
    expect(counted(page)).to_have_count(2)
    box = squares_of(page).bounding_box()
    assert box is not None
    bulk = page.locator(".bulk")

    def draw(across: float) -> None:
        page.mouse.move(box["x"] + 5, box["y"] + 25)
        page.mouse.down()
        page.mouse.move(box["x"] + across / 2, box["y"] + 27)
        page.mouse.move(box["x"] + across, box["y"] + 29)
        page.mouse.up()

    draw(30)
    expect(bulk).to_contain_text("2 selected")
    # A frame that begins on a selected square clears.
    draw(box["width"] - 5)
    expect(bulk).to_contain_text("Select nodes")
    draw(box["width"] - 5)
    expect(bulk).to_contain_text("6 selected")
    page.mouse.click(box["x"] + 5, box["y"] + 25)
    expect(bulk).to_contain_text("5 selected")
    expect(page.locator(".square-name")).to_contain_text("map1-u1")
    page.keyboard.press("Escape")
    expect(bulk).to_contain_text("Select nodes")
    page.locator(".squares-title").last.click()
    expect(bulk).to_contain_text("3 selected")
    page.keyboard.press("Escape")
    # Of the titles Tab reaches that of the square with the focus.
    squares_of(page).focus()
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    expect(page.locator(".squares-title").last).to_be_focused()
    page.keyboard.press("Space")
    expect(bulk).to_contain_text("3 selected")


def test_square_stays_under_a_pressed_pointer_and_opens_its_node(
    page: sync_api.Page, live: service.Service
) -> None:
    for unit in (1, 2):
        live.create(f"still-u{unit}", resource_class="still")
    page.goto(to(live, "/v1/nodes?resource_class=still&~map=name"))
    expect(counted(page)).to_have_text("still: 2 enroll")
    box = squares_of(page).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 25)
    page.mouse.down()
    live.create("still-u0", resource_class="still")  # It takes the first place.
    expect(counted(page)).to_have_text("still: 3 enroll")
    page.mouse.up()
    option = squares_of(page).get_by_role("option")
    expect(option).to_have_text("still-u1, still, enroll")
    expect(option).to_have_attribute("aria-selected", "true")
    page.mouse.move(0, 0)
    page.locator(".square-name button").click()
    expect(page).to_have_url(re.compile("/v1/nodes/still-u1"))


@pytest.mark.usefixtures("racks")
def test_racks_and_switches_are_read_only_when_they_are_asked_for(
    page: sync_api.Page, live: service.Service
) -> None:
    asked: list[str] = []
    more = re.compile("extra|/ports")

    def note(sent: sync_api.Request) -> None:
        if more.search(sent.url):
            asked.append(sent.url)

    page.on("request", note)
    page.goto(to(live, MAP))
    expect(counted(page)).to_have_count(2)
    assert asked == []
    groups = page.get_by_role("combobox", name="Group by")
    groups.select_option(label="rack (extra.rack)")
    expect(counted(page)).to_have_text(
        ["hall 0: 2 enroll", "hall 1: 3 enroll", "no rack: 1 enroll"]
    )
    assert all("fields=uuid,extra,properties" in url for url in asked)
    asked.clear()
    groups.select_option(label="switch (LLDP)")
    expect(counted(page)).to_have_text([f"leaf-{at}: 2 enroll" for at in range(3)])
    assert all("/v1/ports?fields=node_uuid" in url for url in asked)
    page.reload()
    expect(counted(page)).to_have_count(3)
    groups.select_option(label="nothing")
    expect(counted(page)).to_have_text("all: 6 enroll")


@pytest.mark.usefixtures("racks")
def test_groups_that_may_not_be_read_are_a_fault(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("403")
    page.route(
        "**/v1/ports?*", lambda route: route.fulfill(status=403, json={"faultstring": "No."})
    )
    page.goto(to(live, MAP.replace("name", "switch")))
    expect(page.get_by_role("alert")).to_contain_text("No.")
    expect(counted(page)).to_have_text("no switch: 6 enroll")
    page.get_by_role("combobox", name="Group by").select_option(label="rack (extra.rack)")
    expect(counted(page)).to_have_count(3)
    expect(page.get_by_role("alert")).to_have_count(0)
    # The racks are no switches.
    page.get_by_role("combobox", name="Group by").select_option(label="switch (LLDP)")
    expect(page.get_by_role("alert")).to_contain_text("No.")
    expect(counted(page)).to_have_text("no switch: 6 enroll")


def test_squares_show_health_data_and_age(
    page: sync_api.Page, live: service.Service, racks: list[str]
) -> None:
    for name, health in zip(racks, ("OK", "Warning", "Critical"), strict=False):
        write(live, "UPDATE nodes SET health = ? WHERE name = ?", health, name)
    page.goto(to(live, MAP))
    shows = page.get_by_role("combobox", name="Show")
    shows.select_option("health")
    expect(counted(page)).to_have_text(["map1: 1 OK, 1 Warning, 1 Critical", "map2: 3 unknown"])
    legend = page.get_by_role("group", name="Select by what the squares show")
    legend.get_by_role("button", name="Critical 1").click()
    expect(page.locator(".bulk")).to_contain_text("1 selected")
    colors = page.locator(".squares path:not(.chosen)").evaluate_all(
        "all => all.map(one => getComputedStyle(one).fill)"
    )
    assert len(set(colors)) == 4
    shows.select_option("data")
    expect(counted(page).last).to_have_text("map2: 3 unknown")
    shows.select_option("failure")
    expect(counted(page).last).to_have_text("map2: 3 none")
    shows.select_option("age")
    expect(counted(page).last).to_have_text(re.compile("map2: 3 (under 1 h|unknown)"))
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("html").evaluate("one => one.scrollWidth <= 390") or pytest.fail("too wide")
