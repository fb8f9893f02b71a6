"""Many rows are selected at once: by the head, by a range, by drawing the pointer, by keys."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import row, to
from tests.window.conftest import expect


def fleet(page: sync_api.Page, live: service.Service, of: str) -> list[str]:
    """Show five new nodes in the order of their names; return the names."""
    names = [f"{of}-{number}" for number in range(1, 6)]
    for name in names:
        live.create(name)
    page.goto(to(live, f"/v1/nodes?~q={of}-&~sort=name"))
    row(page, names[-1]).wait_for()
    return names


def box(page: sync_api.Page, name: str) -> sync_api.Locator:
    return row(page, name).get_by_role("checkbox")


def ticked(page: sync_api.Page, *names: str) -> None:
    """Wait until these rows are selected and no other."""
    bar = page.locator(".bulk")
    expect(bar).to_contain_text(f"{len(names)} selected" if names else "Select nodes")
    for name in names:
        expect(box(page, name)).to_be_checked()


def test_shift_click_selects_the_rows_between(page: sync_api.Page, live: service.Service) -> None:
    one, two, three, four, five = fleet(page, live, "range")
    box(page, two).click()
    box(page, four).click(modifiers=["Shift"])
    ticked(page, two, three, four)
    box(page, one).click(modifiers=["Shift"])
    ticked(page, one, two, three, four)
    # The box that is pressed says whether the range is selected.
    box(page, five).click()
    box(page, three).click(modifiers=["Shift"])
    ticked(page, one, two)


def test_box_of_the_head_selects_all_that_match(page: sync_api.Page, live: service.Service) -> None:
    names = fleet(page, live, "all")
    head = page.get_by_role("checkbox", name="Select all 5 that match")
    expect(head).not_to_be_checked()
    box(page, names[0]).click()
    assert head.evaluate("box => box.indeterminate")
    head.click()
    ticked(page, *names)
    expect(head).to_be_checked()
    head.click()
    ticked(page)
    expect(head).not_to_be_checked()


def test_head_leaves_what_the_filter_hides_selected(
    page: sync_api.Page, live: service.Service
) -> None:
    names = fleet(page, live, "hid")
    box(page, names[0]).click()
    page.get_by_role("searchbox").fill("hid-2")
    page.get_by_role("checkbox", name="Select all 1 that match").click()
    expect(page.locator(".bulk")).to_contain_text("2 selected, 1 of them hidden by the filter")


def test_pointer_drawn_over_boxes_selects_their_rows(
    page: sync_api.Page, live: service.Service
) -> None:
    _one, two, three, four, _five = fleet(page, live, "drawn")
    box(page, two).hover()
    page.mouse.down()
    box(page, three).hover()
    box(page, four).hover()
    page.mouse.up()
    ticked(page, two, three, four)
    # Back over the last row with the button up: nothing changes.
    box(page, three).hover()
    ticked(page, two, three, four)
    box(page, four).hover()
    page.mouse.down()
    box(page, three).hover()
    page.mouse.up()
    ticked(page, two)


def test_shift_with_an_arrow_selects_downwards_and_upwards(
    page: sync_api.Page, live: service.Service
) -> None:
    one, two, three, _four, _five = fleet(page, live, "arrow")
    page.get_by_role("grid", name="Nodes").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "Shift+ArrowUp"):
        page.keyboard.press(key)
    ticked(page, two, three)
    page.keyboard.press("Shift+ArrowUp")
    ticked(page, one, two, three)
