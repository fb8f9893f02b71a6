"""Retired and protected nodes, and those in an open batch, are told apart before an act."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import paused_batch, press, row, shown, to
from tests.window.conftest import expect


def change(live: service.Service, name: str, field: str) -> None:
    """Set a flag of a node."""
    patch = [{"op": "replace", "path": f"/{field}", "value": True}]
    answer = live.ask("PATCH", f"/v1/nodes/{name}", patch)
    assert answer.status_code == 200, answer.text


def test_retired_and_protected_nodes_have_tags_in_the_list(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("mark-1", "mark-2"):
        live.create(name)
    live.provision("mark-2", "manage", "manageable")
    live.provision("mark-2", "provide", "available")
    live.provision("mark-2", "active", "active")
    change(live, "mark-2", "protected")
    page.goto(to(live, "/v1/nodes?~q=mark-"))
    expect(row(page, "mark-2").get_by_text("protected", exact=True)).to_be_visible()
    expect(row(page, "mark-1").get_by_text("retired", exact=True)).to_have_count(0)
    change(live, "mark-1", "retired")
    expect(row(page, "mark-1").get_by_text("retired", exact=True)).to_be_visible()
    page.goto(to(live, "/v1/nodes?~q=mark-&~cols=name,retired"))
    expect(row(page, "mark-1").get_by_role("gridcell").last).to_have_text("yes")
    expect(row(page, "mark-2").get_by_role("gridcell").last).to_have_text("")


def test_plans_say_that_nodes_are_retired(page: sync_api.Page, live: service.Service) -> None:
    for name in ("marked-1", "marked-2"):
        live.create(name)
    change(live, "marked-1", "retired")
    dialog = page.get_by_role("dialog")
    page.goto(to(live, "/v1/nodes/marked-1"))
    shown(page)
    press(page, "Manage…")
    expect(dialog).to_contain_text("marked-1 is retired.")
    page.keyboard.press("Escape")
    page.goto(to(live, "/v1/nodes?~q=marked-"))
    row(page, "marked-1").get_by_role("checkbox").check()
    row(page, "marked-2").get_by_role("checkbox").check()
    page.get_by_role("button", name="Batch…").click()
    expect(dialog).to_contain_text("1 of 2 nodes is retired: marked-1")


def test_open_batch_names_itself_in_the_list_and_marks_its_nodes(
    page: sync_api.Page, live: service.Service
) -> None:
    names = ["within-1", "within-2", "within-3"]
    for name in names:
        live.create(name)
    change(live, "within-2", "retired")
    batch = paused_batch(live, "rack 3", names[:2])
    page.goto(to(live, "/v1/nodes?~q=within-"))
    # The first node has ended in the batch.
    expect(row(page, "within-2").get_by_role("link", name="rack 3")).to_be_visible()
    for name in ("within-1", "within-3"):
        expect(row(page, name).get_by_role("link", name="rack 3")).to_have_count(0)
    row(page, "within-2").get_by_role("link", name="rack 3").click()
    nodes = page.get_by_role("region", name="Nodes of the batch")
    second = nodes.get_by_role("row").filter(has_text="within-2")
    expect(second.get_by_text("retired", exact=True)).to_be_visible()
    expect(nodes.get_by_text("retired", exact=True)).to_have_count(1)
    body = {"target": "abort"}
    assert live.ask("PUT", f"/v1/batches/{batch}/state", body).status_code < 300
