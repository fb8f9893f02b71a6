"""The query of the fleet: tokens with completions, numbers of states, and saved views as tabs."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import row, to
from tests.window.conftest import expect


def field(page: sync_api.Page) -> sync_api.Locator:
    """Return the field of the query."""
    return page.get_by_role("searchbox")


def option(page: sync_api.Page, name: str) -> sync_api.Locator:
    """Return a completion."""
    return page.get_by_role("listbox", name="Completions").get_by_role("option", name=name)


def test_token_is_completed_and_becomes_a_filter(
    page: sync_api.Page, live: service.Service
) -> None:
    for name, kind in (("token-1", "tok-blue"), ("token-2", "tok-blue"), ("token-3", "tok-red")):
        live.create(name, resource_class=kind)
    page.goto(to(live, "/v1/nodes"))
    field(page).press_sequentially("token- cl")
    option(page, "class: filter").wait_for()
    field(page).press("Tab")
    expect(field(page)).to_have_value("token- class:")
    field(page).press_sequentially("tok")
    expect(option(page, "class:tok-blue 2")).to_be_visible()
    expect(option(page, "class:tok-red 1")).to_be_visible()
    expect(row(page, "token-1")).to_be_visible()  # a token that is being typed hides nothing
    field(page).press("ArrowDown")
    field(page).press("Enter")
    page.get_by_role("button", name="resource_class: tok-blue").wait_for()
    expect(field(page)).to_have_value("token-")
    expect(row(page, "token-3")).to_have_count(0)
    assert "resource_class=tok-blue" in page.url
    page.get_by_role("button", name="resource_class: tok-blue").click()
    row(page, "token-3").wait_for()


def test_typed_token_is_a_filter_without_a_completion(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("plain-1", owner="plain-team")
    live.create("plain-2")
    page.goto(to(live, "/v1/nodes?~q=plain-"))
    row(page, "plain-2").wait_for()
    field(page).fill("plain- owner:plain-team")
    field(page).press("Enter")
    expect(row(page, "plain-2")).to_have_count(0)
    expect(row(page, "plain-1")).to_be_visible()
    expect(field(page)).to_have_value("plain-")


def test_numbers_of_states_are_those_of_the_other_filters(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("facet-1", "facet-2", "facet-3"):
        live.create(name, resource_class="facet")
    live.provision("facet-3", "manage", "manageable")
    page.goto(to(live, "/v1/nodes?resource_class=facet"))
    states = page.get_by_role("group", name="States")
    expect(states.get_by_role("button", name="enroll 2")).to_be_visible()
    states.get_by_role("button", name="manageable 1").click()
    expect(row(page, "facet-1")).to_have_count(0)
    expect(states.get_by_role("button", name="enroll 2")).to_be_visible()


def test_saved_views_are_tabs_of_the_fleet(page: sync_api.Page, live: service.Service) -> None:
    live.create("viewed-1")
    page.goto(to(live, "/v1/nodes?~q=viewed-"))
    row(page, "viewed-1").wait_for()
    views = page.get_by_role("navigation", name="Views")
    views.get_by_role("button", name="+ Save this view").click()
    dialog = page.get_by_role("dialog", name="Save this view")
    dialog.get_by_label("Name").fill("Viewed ones")
    dialog.get_by_role("button", name="Save", exact=True).click()
    tab = views.get_by_role("link", name="Viewed ones")
    expect(tab).to_have_attribute("aria-current", "page")
    expect(views.get_by_role("button", name="+ Save this view")).to_have_count(0)
    page.get_by_role("group", name="States").get_by_role("button", name="all").click()
    expect(tab).not_to_have_attribute("aria-current", "page")
    tab.click()
    expect(field(page)).to_have_value("viewed-")
