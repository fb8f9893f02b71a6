"""One request for each selected node: what is answered, and how many are under way at once."""

from __future__ import annotations

import string

from playwright import sync_api

from tests.support import service
from tests.window.acts import to
from tests.window.conftest import Faults, expect
from tests.window.test_tray import LONG_UNDO

NODES, GONE, AT_ONCE = 30, ("each-07", "each-21"), 4


def select_all(page: sync_api.Page, live: service.Service, names: list[str]) -> None:
    """Create nodes whose names begin alike, and select them in the list."""
    for name in names:
        live.create(name)
    page.goto(to(live, f"/v1/nodes?~q={names[0].rstrip(string.digits)}"))
    grid = page.get_by_role("grid", name="Nodes")
    expect(grid).to_have_attribute("aria-rowcount", str(len(names) + 1))
    grid.focus()
    page.keyboard.press("Control+a")


class UnderWay:
    """Changes of nodes that a page has sent and that are not answered."""

    def __init__(self, page: sync_api.Page) -> None:
        self.sent: list[str] = []
        self.most = 0
        self._open: set[sync_api.Request] = set()
        page.on("request", self._begun)
        page.on("requestfinished", self._ended)

    def _begun(self, asked: sync_api.Request) -> None:
        if asked.url.endswith("/maintenance"):
            self.sent.append(asked.url)
            self._open.add(asked)
            self.most = max(self.most, len(self._open))

    def _ended(self, asked: sync_api.Request) -> None:
        self._open.discard(asked)


def test_maintenance_of_many_nodes_tells_which_were_refused(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    names = [f"each-{number:02}" for number in range(NODES)]
    select_all(page, live, names)
    page.get_by_role("button", name="Maintenance…").click()
    for name in GONE:
        assert live.ask("DELETE", f"/v1/nodes/{name}").status_code == 204
    under_way = UnderWay(page)
    dialog = page.get_by_role("dialog", name=f"Maintenance of {NODES} nodes")
    dialog.get_by_label("Reason").fill("fans of row 3")
    dialog.get_by_role("button", name="Set maintenance on").click()
    expect(dialog).to_contain_text(f"{NODES} of {NODES} answered, {len(GONE)} refused.")
    expect(dialog.get_by_role("listitem")).to_have_count(len(GONE))
    for name in GONE:
        expect(dialog.get_by_role("listitem").filter(has_text=name)).to_contain_text("not be found")
    assert len(under_way.sent) == len(set(under_way.sent)) == NODES
    assert under_way.most <= AT_ONCE
    found = live.get("/v1/nodes?maintenance=true&fields=name,maintenance_reason")["nodes"]
    reasons = {one["name"]: one["maintenance_reason"] for one in found}
    there = sorted(set(names) - set(GONE))
    assert sorted(name for name in reasons if name.startswith("each-")) == there
    assert {reasons[name] for name in there} == {"fans of row 3"}
    for name in there:  # Other tests look for rows that a long table would not draw.
        assert live.ask("DELETE", f"/v1/nodes/{name}").status_code == 204
    faults.allow("404")


def test_maintenance_of_many_nodes_is_set_again_after_it_was_ended(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    names = ["anew-0", "anew-1", "anew-2"]
    select_all(page, live, names)
    page.get_by_role("button", name="Maintenance…").click()
    assert live.ask("DELETE", "/v1/nodes/anew-2").status_code == 204
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("fans of row 4")
    under_way = UnderWay(page)
    # A request after a refusal is only for the nodes that are not done; each change is for all.
    for change, requests in (("on", 3), ("on", 4), ("off", 7), ("on", 10)):
        choice = dialog.get_by_role("combobox")
        if choice.input_value() != change:
            choice.select_option(change)
        with page.expect_response("**/maintenance"):
            dialog.get_by_role("button", name=f"Set maintenance {change}").click()
        expect(dialog).to_contain_text("3 of 3 answered, 1 refused.")
        expect(dialog.get_by_role("button", name=f"Set maintenance {change}")).to_be_enabled()
        assert len(under_way.sent) == requests
        for name in names[:2]:
            assert live.get(f"/v1/nodes/{name}")["maintenance"] == (change == "on")
    for name in names[:2]:
        assert live.ask("DELETE", f"/v1/nodes/{name}").status_code == 204
    faults.allow("404")


def test_undo_ends_the_holds_of_many_nodes(page: sync_api.Page, live: service.Service) -> None:
    names = ["unheld-0", "unheld-1", "unheld-2"]
    page.add_init_script(LONG_UNDO)
    select_all(page, live, names)
    page.get_by_role("button", name="Hold…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("case 10")
    dialog.get_by_role("button", name="Hold 3 nodes").click()
    dialog.wait_for(state="detached")
    page.locator(".live").get_by_role("button", name="Undo").click()
    page.locator(".live").get_by_text("Undone.").wait_for(state="attached")
    for name in names:
        (hold,) = live.get(f"/v1/nodes/{name}/holds?ended=true")["holds"]
        assert hold["end_reason"] == "Undone at once"


def test_undo_gives_many_nodes_their_maintenance_back(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    names = ["mend-0", "mend-1", "mend-2", "mend-3"]
    page.add_init_script(LONG_UNDO)
    select_all(page, live, names)
    body = {"reason": "a loud fan"}
    assert live.ask("PUT", "/v1/nodes/mend-1/maintenance", body).status_code == 202
    page.get_by_role("button", name="Maintenance…").click()
    assert live.ask("DELETE", "/v1/nodes/mend-3").status_code == 204
    faults.allow("404")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("row 3")
    dialog.get_by_role("button", name="Set maintenance on").click()
    expect(dialog).to_contain_text("4 of 4 answered, 1 refused.")
    body = {"reason": "of another"}
    assert live.ask("PUT", "/v1/nodes/mend-2/maintenance", body).status_code == 202
    dialog.get_by_role("button", name="Undo").click()
    told = page.locator(".live").get_by_text("Not undone: 1 node of 3: it has changed meanwhile")
    told.wait_for(state="attached")
    found = [live.get(f"/v1/nodes/{name}") for name in names[:3]]
    assert [one["maintenance_reason"] for one in found] == [None, "a loud fan", "of another"]
    for name in names[:3]:
        assert live.ask("DELETE", f"/v1/nodes/{name}").status_code == 204


def test_hold_after_the_answer_of_a_gateway_is_made_once(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    names = ["gated-0", "gated-1"]
    select_all(page, live, names)
    page.get_by_role("button", name="Hold…").click()
    keys: list[str] = []

    def pass_on(route: sync_api.Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        assert route.fetch().status == 201
        route.fulfill(status=504, body="upstream timed out")

    page.route("**/holds", pass_on)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("case 9")
    dialog.get_by_role("button", name="Hold 2 nodes").click()
    expect(dialog).to_contain_text("2 of 2 answered, 2 refused.")
    page.unroute("**/holds")
    dialog.get_by_role("button", name="Hold 2 nodes").click()
    expect(page.locator(".live")).to_contain_text("2 of 2 done.")
    assert len(set(keys)) == 2
    for name in names:
        assert len(live.get(f"/v1/nodes/{name}/holds")["holds"]) == 1
    faults.allow("504")
