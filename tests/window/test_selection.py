"""Selected nodes in the window: their address, the palette's acts on them, batches that follow."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import cold, failed_node, press, row, state, to
from tests.window.conftest import expect


def act(page: sync_api.Page, words: str) -> None:
    """Choose an act of the palette by the keyboard."""
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    page.get_by_role("option", name=words).wait_for()
    page.keyboard.press("Enter")


def test_selection_is_part_of_the_address(page: sync_api.Page, live: service.Service) -> None:
    for name in ("chosen-1", "chosen-2", "chosen-3"):
        live.create(name)
    page.goto(to(live, "/v1/nodes?~q=chosen-"))
    for name in ("chosen-1", "chosen-3"):
        row(page, name).get_by_role("checkbox").check()
    bar = page.get_by_role("region", name="Selected nodes")
    expect(bar).to_contain_text("2 selected")
    address = page.url
    for name in ("chosen-1", "chosen-3"):
        assert live.get(f"/v1/nodes/{name}")["uuid"] in address
    page.reload()
    expect(bar).to_contain_text("2 selected")
    expect(row(page, "chosen-3").get_by_role("checkbox")).to_be_checked()
    expect(row(page, "chosen-2").get_by_role("checkbox")).not_to_be_checked()
    page.get_by_role("link", name="chosen-2").click()
    page.get_by_role("heading", name="chosen-2").wait_for()
    page.go_back()
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Clear").click()
    expect(bar).to_have_count(0)
    assert "sel" not in page.url


def test_palette_has_the_acts_on_the_node_that_is_shown(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("acted-1")
    cold(page, live, "/v1/nodes/acted-1")
    act(page, "Hold acted-1")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a loose cable")
    dialog.get_by_role("button", name="Hold acted-1", exact=True).click()
    page.locator(".node-head").get_by_text("a loose cable").wait_for()
    act(page, "Maintenance of acted-1")
    dialog.get_by_role("button", name="Set maintenance").click()
    page.locator(".node-head").get_by_text("maintenance", exact=True).wait_for()
    act(page, "Power off acted-1")
    expect(dialog).to_contain_text("At once cuts the power of acted-1.")


def test_palette_has_the_acts_on_the_selected_nodes(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("pair-1", "pair-2"):
        live.create(name)
    page.goto(to(live, "/v1/nodes?~q=pair-"))
    row(page, "pair-2").wait_for()
    page.get_by_role("grid", name="Nodes").focus()
    page.keyboard.press("Control+a")
    for words, title in (
        ("Hold 2 nodes", "Hold 2 nodes"),
        ("Power 2 nodes", "Batch of 2 nodes"),
        ("Maintenance 2 nodes", "Maintenance of 2 nodes"),
    ):
        act(page, words)
        page.get_by_role("dialog", name=title).wait_for()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_available_nodes_are_cleaned_in_two_steps(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("twostep-1", "twostep-2"):
        live.create(name)
        live.provision(name, "manage", "manageable")
        live.provision(name, "provide", "available")
    page.goto(to(live, "/v1/nodes?~q=twostep-"))
    row(page, "twostep-2").wait_for()
    page.get_by_role("grid", name="Nodes").focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("To clean, use Manage first")
    dialog.get_by_label("Request").select_option("manage")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    dialog.get_by_role("button", name="Manage 2 nodes", exact=True).click()
    page.get_by_role("button", name="Clean the managed…").click()
    expect(dialog.get_by_label("Request")).to_have_value("clean")
    dialog.get_by_role("button", name="Erase metadata only").click()
    dialog.get_by_role("button", name="Plan", exact=True).click()
    button = dialog.get_by_role("button", name="Clean 2 nodes", exact=True)
    expect(button).to_be_disabled()
    dialog.get_by_label("Type the number of nodes").fill("2")
    button.click()
    dialog.wait_for(state="detached")
    table = page.get_by_role("region", name="Nodes of the batch")
    for name in ("twostep-1", "twostep-2"):
        expect(table.get_by_role("row", name=name)).to_contain_text("done")
        live.settled(name, "manageable")
    table.get_by_role("row", name="twostep-2").get_by_role("link", name="run").click()
    steps = page.get_by_role("list", name="Steps")
    expect(steps.get_by_role("link", name="erasures")).to_have_attribute(
        "href", f"#/v1/nodes/{live.get('/v1/nodes/twostep-2')['uuid']}/erasures"
    )
    page.go_back()
    table.get_by_role("row", name="twostep-2").get_by_role("link", name="erasures").click()
    page.get_by_role("heading", name="twostep-2").wait_for()
    records = page.get_by_role("region", name="Erasures").locator("tbody tr:not(.day)")
    expect(records).to_have_count(len(live.get("/v1/nodes/twostep-2/erasures")["erasures"]))


def test_batch_that_leaves_data_asks_for_the_number(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("leave-1", "leave-2"):
        failed_node(live, name)
    page.goto(to(live, "/v1/nodes?~q=leave-"))
    row(page, "leave-2").wait_for()
    page.get_by_role("grid", name="Nodes").focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("available")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog).to_contain_text("Leaves the data on 2 nodes")
    button = dialog.get_by_role("button", name="Make available 2 nodes", exact=True)
    expect(button).to_be_disabled()
    dialog.get_by_label("Type the number of nodes").fill("2")
    expect(button).to_be_enabled()


def test_image_is_shown_where_it_is_installed(page: sync_api.Page, live: service.Service) -> None:
    live.create("imaged-1", instance_info={"image_source": "http://192.0.2.1/disk.qcow2"})
    live.provision("imaged-1", "manage", "manageable")
    live.provision("imaged-1", "provide", "available")
    page.goto(to(live, "/v1/nodes/imaged-1"))
    press(page, "Deploy…")
    image = page.get_by_role("dialog").get_by_label("Image", exact=True)
    expect(image).to_have_value("http://192.0.2.1/disk.qcow2")
    page.keyboard.press("Escape")
    live.provision("imaged-1", "active", "active")
    state(page, "active").wait_for()
    press(page, "Rebuild…")
    image = page.get_by_role("dialog").get_by_label("Image", exact=True)
    expect(image).to_have_value("http://192.0.2.1/disk.qcow2")
    # Other tests count active nodes. The page must not ask for a node that is gone.
    page.goto("about:blank")
    assert live.ask("PUT", "/v1/nodes/imaged-1/maintenance", {}).status_code == 202
    assert live.ask("DELETE", "/v1/nodes/imaged-1").status_code == 204


def test_history_begins_with_the_newest(page: sync_api.Page, live: service.Service) -> None:
    live.create("story-1")
    live.provision("story-1", "manage", "manageable")
    live.provision("story-1", "provide", "available")
    page.goto(to(live, "/v1/nodes/story-1/history"))
    times = page.locator(".activity li > time")
    times.first.wait_for()
    found = [one.get_attribute("datetime") or "" for one in times.all()]
    assert len(found) > 1
    assert found == sorted(found, reverse=True)


def test_hold_is_lifted_from_the_palette(page: sync_api.Page, live: service.Service) -> None:
    live.create("lifted-1")
    hold = {"kind": "freeze", "reason": "case 7"}
    assert live.ask("POST", "/v1/nodes/lifted-1/holds", hold).status_code == 201
    cold(page, live, "/v1/nodes/lifted-1")
    act(page, "Lift hold of lifted-1")
    page.get_by_role("dialog", name="Lift a hold of lifted-1").wait_for()


def test_palette_saves_a_view_without_the_selection(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("saved-1")
    page.goto(to(live, "/v1/nodes?~q=saved-"))
    row(page, "saved-1").get_by_role("checkbox").check()
    expect(page.get_by_role("region", name="Selected nodes")).to_contain_text("1 selected")
    act(page, "Save this view")
    dialog = page.get_by_role("dialog", name="Save this view")
    dialog.get_by_label("Name").fill("saved")
    dialog.get_by_role("button", name="Save", exact=True).click()
    expect(dialog).to_have_count(0)
    found = page.evaluate("JSON.parse(localStorage.getItem('ironic-lite')).views")
    assert found == {"saved": "#/v1/nodes?~q=saved-"}


def test_enter_on_a_link_of_a_row_opens_its_node(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("linked-1", "linked-2", "linked-3"):
        live.create(name)
    page.goto(to(live, "/v1/nodes?~q=linked-"))
    row(page, "linked-1").wait_for()
    page.get_by_role("grid", name="Nodes").focus()
    page.get_by_role("link", name="linked-3").press("Enter")
    page.get_by_role("heading", name="linked-3").wait_for()
