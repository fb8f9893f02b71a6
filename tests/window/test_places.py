"""What stands where in the window: menus over the page, its top, and the bar of selected nodes."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import act, press, row, to, write
from tests.window.conftest import expect

ON_TOP = """one => {
  const box = one.getBoundingClientRect();
  return one.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2));
}"""


def test_menu_of_power_lies_over_the_page_and_closes(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("menu-1")
    live.provision("menu-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/menu-1"))
    menu = page.locator("main .menu").first
    below = page.get_by_role("list", name="States")
    summary = menu.locator("summary")
    summary.wait_for()
    before = below.bounding_box()
    summary.click()
    buttons = menu.get_by_role("button")
    expect(buttons).to_have_count(5)
    assert all(button.evaluate(ON_TOP) for button in buttons.all())
    assert below.bounding_box() == before
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    expect(summary).to_be_focused()
    press(page, "Power on…")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    expect(menu).not_to_have_attribute("open", "")
    dialog.get_by_role("button", name="Cancel").click()
    expect(summary).to_be_focused()
    summary.click()
    act(page, "Provide…").focus()
    expect(menu).not_to_have_attribute("open", "")


def test_columns_are_part_of_the_address(page: sync_api.Page, live: service.Service) -> None:
    live.create("cols-1", owner="ann")
    page.goto(to(live, "/v1/nodes?~q=cols-"))
    row(page, "cols-1").wait_for()
    heads = page.get_by_role("columnheader")
    page.locator("summary", has_text="Columns").click()
    page.get_by_label("owner").check()
    page.get_by_label("Data", exact=True).uncheck()
    expect(heads).to_have_text(
        ["", "Name", "State", "Since", "Under way", "Power", "Class", "Conductor", "Batch", "owner"]
    )
    expect(row(page, "cols-1")).to_contain_text("ann")
    page.keyboard.press("Escape")
    expect(page.get_by_label("owner")).to_be_hidden()
    page.reload()
    expect(row(page, "cols-1")).to_contain_text("ann")
    expect(heads).to_have_count(10)


def test_column_has_serial_numbers_of_inventories_and_of_properties(
    page: sync_api.Page, live: service.Service
) -> None:
    found = live.create("number-1", properties={"serial_number": "SN-typed"})
    live.create("number-2", properties={"serial_number": "SN-4712"})
    service.until(lambda: live.get("/v1/search?q=number-1")["hits"], "the terms of the node")
    field = "inventory.system_vendor.serial_number"
    columns = "(node_uuid, field, term, value) VALUES (?, ?, 'sn-4711', 'SN-4711')"
    write(live, f"INSERT INTO search_terms {columns}", found, field)
    page.goto(to(live, "/v1/nodes?~q=number-"))
    row(page, "number-1").wait_for()
    page.locator("summary", has_text="Columns").click()
    page.get_by_label("serial", exact=True).check()
    expect(row(page, "number-1")).to_contain_text("SN-4711")
    expect(row(page, "number-2")).to_contain_text("SN-4712")


def test_new_page_begins_at_its_top(page: sync_api.Page, live: service.Service) -> None:
    for name in ("top-1", "top-2"):
        live.create(name)
    # So low that the page is longer even while it loads.
    page.set_viewport_size({"width": 1000, "height": 120})
    page.goto(to(live, "/v1/nodes/top-1?~tab=settings"))
    page.get_by_text("Change fields").scroll_into_view_if_needed()
    assert page.evaluate("scrollY") > 0
    page.evaluate("location.hash = '#/v1/nodes/top-2?~tab=settings'")
    page.get_by_role("heading", name="top-2").wait_for()
    page.get_by_text("Change fields").wait_for()
    assert page.evaluate("scrollY") == 0


def test_bar_counts_the_selected_nodes_and_says_which_are_hidden(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("bar-one", "bar-two", "bar-three"):
        live.create(name)
    page.goto(to(live, "/v1/nodes?~q=bar-"))
    grid = page.get_by_role("grid", name="Nodes")
    row(page, "bar-three").wait_for()
    grid.focus()
    page.keyboard.press("Control+a")
    bar = page.get_by_role("region", name="Selected nodes")
    expect(bar).to_contain_text("3 selected")
    expect(bar).not_to_contain_text("hidden")
    page.get_by_role("searchbox").focus()  # Rows stay while the focus is on them.
    live.create("bar-four")  # A selection never grows by itself.
    row(page, "bar-four").wait_for()
    expect(bar).to_contain_text("3 selected")
    search = page.get_by_role("searchbox")
    search.fill("bar-t")
    expect(bar).to_contain_text("3 selected, 1 of them hidden by the filter")
    row(page, "bar-two").get_by_role("checkbox").uncheck()
    expect(bar).to_contain_text("2 selected, 1 of them hidden by the filter")
    text = page.locator(".curl", has_text="the selected nodes").get_attribute("title") or ""
    names = ("bar-one", "bar-three")
    assert all(live.get(f"/v1/nodes/{name}")["uuid"] in text for name in names)
    assert live.get("/v1/nodes/bar-two")["uuid"] not in text
    search.fill("bar-")
    expect(bar).to_contain_text("2 selected")
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Escape")
    expect(bar).to_have_count(0)
    expect(page.locator(".bulk")).to_contain_text("Select nodes")
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(0)
