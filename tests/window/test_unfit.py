"""A batch with nodes that cannot get its request: who can, why not, and leaving them out."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import to
from tests.window.conftest import Faults

expect = sync_api.expect


def test_unfit_nodes_are_named_and_left_out(page: sync_api.Page, live: service.Service) -> None:
    for number in range(3):
        live.create(f"unfit-{number}")
    hold = {"kind": "freeze", "reason": "case 7"}
    assert live.ask("POST", "/v1/nodes/unfit-2/holds", hold).status_code == 201
    page.goto(to(live, "/v1/nodes?~q=unfit-"))
    grid = page.get_by_role("grid", name="Nodes")
    for number in range(3):
        grid.get_by_role("row", name=f"unfit-{number}").get_by_role("checkbox").check()
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("manage")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog).to_contain_text("1 of them would refuse the request now")
    expect(dialog).to_contain_text("case 7")
    expect(dialog.get_by_label("Leave them out: 2 can, 1 cannot.")).to_be_checked()
    with page.expect_request(lambda sent: sent.url.endswith("/v1/batches")) as sent:
        dialog.get_by_role("button", name="Manage 2 nodes").click()
    assert '"unfit":"leave out"' in (sent.value.post_data or "")
    dialog.wait_for(state="detached")
    service.until(
        lambda: live.get("/v1/nodes/unfit-1")["provision_state"] == "manageable", "the batch"
    )
    assert live.get("/v1/nodes/unfit-2")["provision_state"] == "enroll"


def test_confirmation_of_a_batch_is_of_the_nodes_that_are_not_left_out(
    page: sync_api.Page, live: service.Service
) -> None:
    for number in range(3):
        live.create(f"leaves-{number}")
        live.provision(f"leaves-{number}", "manage", "manageable")
    hold = {"kind": "freeze", "reason": "case 8"}
    assert live.ask("POST", "/v1/nodes/leaves-2/holds", hold).status_code == 201
    page.goto(to(live, "/v1/nodes?~q=leaves-"))
    grid = page.get_by_role("grid", name="Nodes")
    for number in range(3):
        grid.get_by_role("row", name=f"leaves-{number}").get_by_role("checkbox").check()
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("provide")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    leave = dialog.get_by_label("Leave them out: 2 can, 1 cannot.")
    expect(leave).to_be_checked()
    sentence = dialog.locator("strong", has_text="the data on")
    expect(sentence).to_contain_text("on 2 nodes: leaves-0, leaves-1.")
    field = dialog.get_by_label("Type the number of nodes")
    field.fill("2")
    expect(dialog.get_by_role("button", name="Provide 2 nodes")).to_be_enabled()
    leave.uncheck()
    expect(sentence).to_contain_text("on 3 nodes: leaves-0, leaves-1, leaves-2.")
    expect(field).to_have_value("")
    expect(dialog.get_by_role("button", name="Provide 3 nodes")).to_be_disabled()


def test_batch_of_other_nodes_than_the_plan_counts_does_not_begin(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("409")
    for number in range(2):
        live.create(f"unplanned-{number}")
    page.goto(to(live, "/v1/nodes?~q=unplanned-"))
    grid = page.get_by_role("grid", name="Nodes")
    for number in range(2):
        grid.get_by_role("row", name=f"unplanned-{number}").get_by_role("checkbox").check()
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("manage")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    dialog.get_by_role("button", name="Manage 2 nodes").wait_for()
    hold = {"kind": "freeze", "reason": "case 9"}
    assert live.ask("POST", "/v1/nodes/unplanned-1/holds", hold).status_code == 201
    dialog.get_by_role("button", name="Manage 2 nodes").click()
    expect(dialog).to_contain_text(
        'Other nodes can get the request now than those of expect_fit; press "Plan" to see which.'
    )
    assert live.get("/v1/nodes/unplanned-0")["provision_state"] == "enroll"
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog).to_contain_text("case 9")
    dialog.get_by_role("button", name="Manage 1 node").click()
    dialog.wait_for(state="detached")
