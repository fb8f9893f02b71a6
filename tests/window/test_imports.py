"""The bar of machines that are only observed since their import, and their release."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import row, to
from tests.window.conftest import Faults, expect

pytestmark = pytest.mark.feature("move_in")

IMPORT: dict[str, Any] = {
    "at": "2026-11-28T20:10:11+00:00",
    "release": "35 (2026.1)",
    "trial": False,
    "observed": 9998,
    "unread": 4,
}
EARLIER = {**IMPORT, "release": "29 (2025.1)", "observed": 2, "unread": 0}


def answer(page: sync_api.Page, *imports: dict[str, Any]) -> None:
    """Answer GET /v1/imports."""
    page.route("**/v1/imports?*", lambda route: route.fulfill(json={"imports": list(imports)}))


def said(page: sync_api.Page, text: str) -> sync_api.Locator:
    """Return a message on the screen."""
    return page.get_by_text(text).locator("visible=true").first


def bar(page: sync_api.Page) -> sync_api.Locator:
    """Return the bar."""
    return page.locator("p.observed")


def test_bar_counts_observed_machines_on_every_page(
    page: sync_api.Page, live: service.Service
) -> None:
    answer(page, {**IMPORT, "observed": 9996}, EARLIER, {**EARLIER, "observed": 0})
    for path in ("/v1/nodes", "/v1/runs", "/v1/doctor", "/v1/whoami"):
        page.goto(to(live, path))
        expect(bar(page)).to_contain_text(
            "9998 machines are only observed since their import from Ironic 35 on Nov 28. "
            "4 have not answered."
        )
        expect(bar(page).get_by_role("button", name="Release…")).to_be_visible()


@pytest.mark.parametrize("imports", [(), ({**IMPORT, "observed": 0},)])
def test_no_bar_without_observed_machines(
    page: sync_api.Page, live: service.Service, imports: tuple[Any, ...]
) -> None:
    answer(page, *imports)
    with page.expect_response("**/v1/imports?*"):
        page.goto(to(live, "/v1/nodes"))
    expect(page.locator(".footer")).to_be_visible()
    expect(bar(page)).to_have_count(0)


def test_trial_is_shown_and_not_released(page: sync_api.Page, live: service.Service) -> None:
    answer(page, {**IMPORT, "trial": True, "observed": 1, "unread": 1})
    page.goto(to(live, "/v1/nodes"))
    expect(bar(page)).to_contain_text(
        "1 machine is only observed since its trial import from Ironic 35 on Nov 28. 1 has not"
    )
    expect(bar(page).get_by_role("button")).to_have_count(0)


@pytest.fixture
def moved(live: service.Service) -> Iterator[None]:
    """Two observed nodes of an import, which no request can make; they are released at the end."""
    for name in ("moved-1", "moved-2"):
        live.create(name)
    row = {
        **dict.fromkeys(("selection", "maps", "marks", "counts"), "{}"),
        **{"uuid": "6e0b0a1e-1d6b-4f0a-9d4e-0123456789ab", "at": "2026-11-28 20:10:11.000000"},
        **{"release": "35 (2026.1)", "head": "h", "source": "s", "left_out": "[]"},
        "findings": "[]",
    }
    names = ", ".join(f'"{name}"' for name in row)
    with contextlib.closing(sqlite3.connect(live.folder / "state/ironic-lite.sqlite")) as file:
        marks = ", ".join("?" * len(row))
        file.execute(f"INSERT INTO imports ({names}) VALUES ({marks})", [*row.values()])
        file.execute("UPDATE nodes SET import_uuid = ? WHERE name LIKE 'moved-%'", [row["uuid"]])
        file.commit()
    body = {"kind": "observe", "reason": "imported", "nodes": ["moved-1", "moved-2"]}
    assert live.ask("POST", "/v1/holds", body).ok
    yield
    ended = {"kind": "observe", "reason": "seen", "unread": True, "all": True}
    assert live.ask("POST", "/v1/holds/end", ended).ok


@pytest.mark.usefixtures("moved")
def test_observed_machines_are_shown_and_released(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("free-1")
    page.goto(to(live, "/v1/nodes"))
    expect(bar(page)).to_contain_text("2 machines are only observed since their import from")
    bar(page).get_by_role("link", name="Show them").click()
    expect(row(page, "moved-1")).to_be_visible()
    expect(row(page, "moved-2")).to_be_visible()
    expect(row(page, "free-1")).to_have_count(0)
    bar(page).get_by_role("button", name="Release…").click()
    dialog = page.get_by_role("dialog", name="Release of observed machines")
    button = dialog.get_by_role("button", name="Release", exact=True)
    expect(button).to_be_disabled()
    dialog.get_by_label("Reason").fill("first rack")
    dialog.get_by_role("combobox", name="Machines").select_option("nodes")
    expect(button).to_be_disabled()
    dialog.get_by_label("Names").fill("moved-1, ")
    with page.expect_request("**/v1/holds/end") as sent:
        button.click()
    assert json.loads(sent.value.post_data or "") == {
        **{"kind": "observe", "nodes": ["moved-1"], "reason": "first rack", "unread": False}
    }
    expect(said(page, "1 machine released.")).to_be_visible()
    expect(dialog).to_have_count(0)
    expect(bar(page)).to_contain_text("1 machine is only observed since its import from")
    held = live.get("/v1/nodes?held=observe")["nodes"]
    assert [one["name"] for one in held] == ["moved-2"]


def test_release_goes_on_while_there_is_more_and_names_those_that_are_left(
    page: sync_api.Page, live: service.Service
) -> None:
    left = [{"uuid": f"u{n}", "name": f"r7-{n}", "code": "PowerUnread"} for n in range(7)]
    asked: list[Any] = []

    def fulfil(route: sync_api.Route) -> None:
        asked.append(json.loads(route.request.post_data or ""))
        last = len(asked) == 3
        more = {"left": 7 if last else 0, "nodes": left if last else []}
        route.fulfill(json={"ended": 1000, "more": not last, **more})

    answer(page, IMPORT)
    page.route("**/v1/holds/end", fulfil)
    page.goto(to(live, "/v1/nodes"))
    bar(page).get_by_role("button", name="Release…").click()
    dialog = page.get_by_role("dialog", name="Release of observed machines")
    dialog.get_by_label("Reason").fill("all racks")
    dialog.get_by_label("Also machines that have not answered (4)").check()
    dialog.get_by_role("button", name="Release", exact=True).click()
    text = "3000 machines released, 7 left without an answer: r7-0, r7-1, r7-2, r7-3, r7-4, …."
    expect(said(page, text)).to_be_visible()
    assert asked == [{"kind": "observe", "all": True, "reason": "all racks", "unread": True}] * 3


def test_release_of_a_trial_is_refused_in_the_dialog(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("409")
    answer(page, IMPORT)
    fault = {"error_message": json.dumps({"faultstring": "Ironic ran when it was imported."})}
    page.route("**/v1/holds/end", lambda route: route.fulfill(status=409, json=fault))
    page.goto(to(live, "/v1/nodes"))
    bar(page).get_by_role("button", name="Release…").click()
    dialog = page.get_by_role("dialog", name="Release of observed machines")
    dialog.get_by_label("Reason").fill("x")
    dialog.get_by_role("button", name="Release", exact=True).click()
    expect(dialog).to_contain_text("Ironic ran when it was imported.")
