"""A large fleet in the window: counts, scrolling, and addresses that give a view again."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import uuid
from collections.abc import Iterator

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import row, to
from tests.window.conftest import OpenPage, expect

NODES = 10_000
STATES = ("available", "active", "manageable", "enroll")


@pytest.fixture(scope="module")
def fleet() -> Iterator[service.Service]:
    """A service with many nodes, which are written into its database."""
    with service.service() as found:
        found.start()
        found.up()
        rows = [
            (str(uuid.uuid4()), f"big-{at:05}", STATES[at % len(STATES)]) for at in range(NODES)
        ]
        file = found.folder / "state/ironic-lite.sqlite"
        with contextlib.closing(sqlite3.connect(file, timeout=60)) as connection, connection:
            uuid_of_first = found.create("first-node")
            columns = [one[1] for one in connection.execute("PRAGMA table_info(nodes)")]
            copied = [
                one for one in columns if one not in {"id", "uuid", "name", "provision_state"}
            ]
            names = ", ".join(copied)
            connection.executemany(
                f"INSERT INTO nodes (uuid, name, provision_state, {names})"
                f" SELECT ?, ?, ?, {names} FROM nodes WHERE uuid = '{uuid_of_first}'",
                rows,
            )
        yield found


def test_first_rows_come_before_the_last_page(open_page: OpenPage, fleet: service.Service) -> None:
    page: sync_api.Page = open_page(fleet)
    held: list[sync_api.Route] = []

    def keep(route: sync_api.Route) -> None:
        held.append(route)

    page.route("**/v1/nodes?*marker=*", keep)
    page.goto(to(fleet, "/v1/nodes"))
    grid = page.get_by_role("grid", name="Nodes")
    expect(grid).to_have_attribute("aria-rowcount", "1001")
    expect(page.locator(".footer")).to_contain_text("loading")
    assert len(held) == 1
    page.unroute("**/v1/nodes?*marker=*")  # The request goes on.
    expect(grid).to_have_attribute("aria-rowcount", str(NODES + 2))


def test_plain_table_has_pages_of_500_rows(open_page: OpenPage, fleet: service.Service) -> None:
    page: sync_api.Page = open_page(fleet)
    page.goto(to(fleet, "/v1/whoami"))
    page.get_by_label("Plain tables").check()
    page.goto(to(fleet, "/v1/nodes?~sort=name"))
    rows = page.locator(".body .row")
    expect(rows).to_have_count(500)
    expect(rows.first).to_contain_text("big-00000")
    page.get_by_role("button", name="Next", exact=True).click()
    expect(rows.first).to_contain_text("big-00500")
    expect(rows).to_have_count(500)
    page.get_by_text("Page 2 of 21").wait_for()


def test_many_nodes_are_counted_filtered_and_scrolled(
    open_page: OpenPage, fleet: service.Service
) -> None:
    page: sync_api.Page = open_page(fleet)
    grid = page.get_by_role("grid", name="Nodes")
    page.goto(to(fleet, "/v1/nodes"))
    grid.get_by_role("row").nth(1).wait_for()
    expect(grid).to_have_attribute("aria-rowcount", str(NODES + 2))
    assert page.locator("*").count() < 1500
    counts = fleet.get("/v1/stats/nodes?by=provision_state")["counts"]
    for one in counts:
        chip = page.get_by_role("button", name=f"{one['provision_state']} {one['count']}")
        chip.wait_for()
    grid.focus()
    page.keyboard.press("End")
    expect(grid.locator(".row.active")).to_have_attribute("aria-rowindex", str(NODES + 2))

    page.locator(".chips").get_by_role("button", name="manageable").click()
    page.keyboard.press("/")
    page.keyboard.type("big-0001")
    address, seen = page.url, grid.get_attribute("aria-rowcount")
    row(page, "big-00014").wait_for()
    page.reload()
    row(page, "big-00014").wait_for()
    assert page.url == address
    page.get_by_role("link", name="big-00014").click()
    page.get_by_role("heading", name="big-00014").wait_for()
    page.go_back()
    row(page, "big-00014").wait_for()
    expect(grid).to_have_attribute("aria-rowcount", seen or "")
    expect(page.get_by_role("searchbox")).to_have_value("big-0001")
    page.go_forward()
    page.get_by_role("heading", name="big-00014").wait_for()


LONGEST_TASK_MS = 200
TRIES = 20


def test_map_of_5000_nodes_has_few_elements_and_short_tasks(
    open_page: OpenPage, fleet: service.Service
) -> None:
    page: sync_api.Page = open_page(fleet, viewport={"width": 1232, "height": 900})
    page.goto(to(fleet, "/v1/nodes?provision_state=available,active&~map=all"))
    squares = page.get_by_role("listbox", name="Nodes on the map")
    counted = page.get_by_role("list", name="Nodes on the map, counted")
    expect(counted).to_have_text("all: 2500 available, 2500 active")
    assert page.locator("*").count() < 1500
    box = squares.bounding_box()
    assert box is not None
    assert (box["width"], box["height"] <= 400) == (1200, True)
    page.evaluate("""() => {
        window.longest = 0;
        const watch = list => {
            for (const one of list.getEntries())
                window.longest = Math.max(window.longest, one.duration);
        };
        new PerformanceObserver(watch).observe({type: "longtask"});
    }""")
    shows = page.get_by_role("combobox", name="Show")
    bulk = page.locator(".bulk")

    def longest() -> float:
        """Return the milliseconds of the longest task while the map is drawn, and selected from."""
        page.evaluate("window.longest = 0")
        shows.select_option("data")
        expect(counted).to_have_text(re.compile("unknown"))
        shows.select_option("state")
        expect(counted).to_have_text(re.compile("active"))
        page.mouse.move(box["x"] + 5, box["y"] + 25)
        page.mouse.down()
        page.mouse.move(box["x"] + 1190, box["y"] + box["height"] - 5, steps=5)
        page.mouse.up()
        expect(bulk).to_contain_text("5000 selected")
        page.keyboard.press("Escape")
        expect(bulk).to_contain_text("Select nodes")
        return float(page.evaluate("window.longest"))

    # Other processes make tasks longer, but hardly those of each try.
    tasks = [longest()]
    while min(tasks) > LONGEST_TASK_MS and len(tasks) < TRIES:
        tasks.append(longest())
    assert min(tasks) <= LONGEST_TASK_MS, tasks


def test_selection_that_is_too_long_for_an_address_stays_in_the_page(
    open_page: OpenPage, fleet: service.Service
) -> None:
    page: sync_api.Page = open_page(fleet)
    grid = page.get_by_role("grid", name="Nodes")
    bar = page.get_by_role("region", name="Selected nodes")
    for words, count, named in (("big-00", 1000, 0), ("big-000", 100, 100)):
        page.goto(to(fleet, f"/v1/nodes?~q={words}"))
        expect(grid).to_have_attribute("aria-rowcount", str(count + 1))
        grid.focus()
        page.keyboard.press("Control+a")
        expect(bar).to_contain_text(f"{count} selected")
        assert len(re.findall("[0-9a-f]{8}-", page.url)) == named
        page.get_by_role("searchbox").fill("big-0001")
        expect(bar).to_contain_text(f"{count} selected")
        row(page, "big-00014").get_by_role("checkbox").uncheck()
        expect(bar).to_contain_text(f"{count - 1} selected")
        page.get_by_role("searchbox").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        expect(bar).to_have_count(0)


def test_each_entry_of_the_history_has_its_own_large_selection(
    open_page: OpenPage, fleet: service.Service
) -> None:
    page: sync_api.Page = open_page(fleet)
    grid = page.get_by_role("grid", name="Nodes")
    bar = page.get_by_role("region", name="Selected nodes")
    page.goto(to(fleet, "/v1/nodes?~q=big-00"))
    expect(grid).to_have_attribute("aria-rowcount", "1001")
    grid.focus()
    page.keyboard.press("Control+a")
    expect(bar).to_contain_text("1000 selected")
    assert "sel" not in page.url
    page.locator(".chips").get_by_role("button", name="manageable").click()
    expect(bar).to_contain_text("1000 selected, 750 of them hidden")
    expect(grid).to_have_attribute("aria-rowcount", "251")
    grid.focus()
    page.keyboard.press("Control+a")
    expect(bar).to_contain_text("250 selected")
    page.reload()
    expect(bar).to_contain_text("250 selected")
    page.go_back()
    expect(bar).to_contain_text("1000 selected")
    page.get_by_role("link", name="big-00014").click()
    page.get_by_role("heading", name="big-00014").wait_for()
    page.go_back()
    expect(bar).to_contain_text("1000 selected")
    page.locator(".chips").get_by_role("button", name="all").click()
    expect(bar).to_contain_text("1000 selected")
    expect(grid).to_have_attribute("aria-rowcount", str(NODES + 2))


@pytest.mark.parametrize("words", ["big-00", "big-000"], ids=["1000", "100"])
def test_another_link_to_the_fleet_clears_the_selection(
    open_page: OpenPage, fleet: service.Service, words: str
) -> None:
    page: sync_api.Page = open_page(fleet)
    grid = page.get_by_role("grid", name="Nodes")
    bar = page.get_by_role("region", name="Selected nodes")
    page.goto(to(fleet, f"/v1/nodes?~q={words}"))
    count = 1000 if words == "big-00" else 100
    expect(grid).to_have_attribute("aria-rowcount", str(count + 1))
    grid.focus()
    page.keyboard.press("Control+a")
    expect(bar).to_contain_text(f"{count} selected")
    page.evaluate("location.hash = '#/v1/nodes?~q=big-0001'")
    row(page, "big-00014").wait_for()
    expect(bar).to_have_count(0)
    page.go_back()
    expect(bar).to_contain_text(f"{count} selected")
