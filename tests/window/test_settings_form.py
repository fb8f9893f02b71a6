"""Settings, traits and ports of a node by forms; the patch is reviewed before it is sent."""

from __future__ import annotations

import re

from playwright import sync_api

from tests.support import service
from tests.window.acts import to
from tests.window.conftest import Faults
from tests.window.test_enroll import typed_nowhere

expect = sync_api.expect
PASSWORD = "hunter2hunter2"


def test_settings_are_changed_by_a_form_and_reviewed(
    page: sync_api.Page, live: service.Service
) -> None:
    info = {"redfish_address": "https://192.0.2.6", "redfish_username": "root"}
    live.create("set-1", driver="redfish", driver_info={**info, "redfish_password": "before"})
    page.goto(to(live, "/v1/nodes/set-1?~tab=fields"))
    form = page.get_by_role("form", name="Settings of set-1")
    review = form.get_by_role("button", name="Review")
    expect(review).to_be_disabled()
    form.get_by_label("Resource class").fill("gpu")
    address = form.get_by_label("redfish_address", exact=True)
    expect(address).to_have_value("https://192.0.2.6")
    address.fill("https://192.0.2.7")
    password = form.get_by_label("redfish_password", exact=True)
    expect(password).to_have_value("")
    expect(password).to_have_attribute("placeholder", "unchanged")
    password.fill(PASSWORD)
    expect(review).to_have_text("Review 3 changes")
    review.click()
    changes = form.get_by_role("list", name="Changes")
    expect(changes).to_contain_text("https://192.0.2.6 → https://192.0.2.7")
    expect(changes).to_contain_text("/driver_info/redfish_password: ****** → ******")
    typed_nowhere(page, PASSWORD)
    expect(form.get_by_label("Resource class")).to_have_value("gpu")
    form.get_by_role("button", name="Save").click()
    form.get_by_role("button", name="Review 0 changes").wait_for()
    node = live.get("/v1/nodes/set-1")
    assert node["resource_class"] == "gpu"
    assert node["driver_info"] == {
        **info,
        "redfish_address": "https://192.0.2.7",
        "redfish_password": "******",
    }
    (event,) = live.get("/v1/events?node=set-1&since=0&kind=node_updated")["events"]
    assert PASSWORD not in str(event)
    typed_nowhere(page, PASSWORD)


def test_node_is_retired_by_the_form(page: sync_api.Page, live: service.Service) -> None:
    live.create("set-2")
    page.goto(to(live, "/v1/nodes/set-2?~tab=fields"))
    form = page.get_by_role("form", name="Settings of set-2")
    form.get_by_text("Life", exact=True).click()
    form.get_by_label("Retired").check()
    form.get_by_label("Why retired").fill("fan")
    form.get_by_role("button", name="Review 2 changes").click()
    form.get_by_role("button", name="Save").click()
    form.get_by_role("button", name="Review 0 changes").wait_for()
    node = live.get("/v1/nodes/set-2")
    assert (node["retired"], node["retired_reason"]) == (True, "fan")


def test_traits_and_ports_are_added_and_removed(page: sync_api.Page, live: service.Service) -> None:
    live.create("set-3")
    page.goto(to(live, "/v1/nodes/set-3?~tab=fields"))
    traits = page.get_by_role("form", name="Traits")
    traits.get_by_label("Trait").fill("CUSTOM_A")
    traits.get_by_role("button", name="Add the trait").click()
    traits.get_by_role("button", name="CUSTOM_A").wait_for()
    assert live.get("/v1/nodes/set-3/traits")["traits"] == ["CUSTOM_A"]
    traits.get_by_role("button", name="CUSTOM_A").click()
    expect(traits.get_by_role("button", name="CUSTOM_A")).to_have_count(0)
    page.goto(to(live, "/v1/nodes/set-3/ports"))
    port = page.get_by_role("form", name="New port")
    port.get_by_label("MAC address").fill("52:54:00:0f:00:03")
    port.get_by_role("button", name="Add the port").click()
    listed = page.get_by_role("region", name="Ports")
    listed.get_by_text("52:54:00:0f:00:03").wait_for()
    listed.get_by_role("button", name="Remove").click()
    expect(listed.get_by_text("52:54:00:0f:00:03")).to_have_count(0)
    assert live.get("/v1/ports?node=set-3")["ports"] == []


def test_form_of_a_port_does_not_overwrite_the_change_of_another_person(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    body = {"node_uuid": live.create("set-9"), "address": "52:54:00:0f:00:09"}
    path = f"/v1/ports/{live.ask('POST', '/v1/ports', body).json()['uuid']}"
    page.goto(to(live, "/v1/nodes/set-9/ports"))
    page.get_by_role("region", name="Ports").get_by_role("button", name="Change…").click()
    dialog = page.get_by_role("dialog", name="Port 52:54:00:0f:00:09")
    dialog.get_by_label("Name", exact=True).fill("mine")
    theirs = [{"op": "add", "path": "/name", "value": "theirs"}]
    assert live.ask("PATCH", path, theirs).status_code == 200
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("HTTP 412")
    expect(dialog.locator(".tree")).to_contain_text("theirs")
    assert live.get(path)["name"] == "theirs"
    dialog.get_by_role("button", name="Use mine").click()
    dialog.wait_for(state="detached")
    assert live.get(path)["name"] == "mine"
    faults.allow("412")


URL = f"https://ann:{PASSWORD}@192.0.2.9/deploy.kernel"


def test_password_of_a_url_is_in_no_preview_and_no_curl(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("set-5", driver="redfish", driver_info={"redfish_address": "https://192.0.2.6"})
    page.goto(to(live, "/v1/nodes/set-5?~tab=fields"))
    form = page.get_by_role("form", name="Settings of set-5")
    form.get_by_text("Ramdisk", exact=True).click()
    form.get_by_label("deploy_kernel", exact=True).fill(URL)
    form.get_by_role("button", name="Review").click()
    expect(form.get_by_role("list", name="Changes")).to_contain_text("https://ann:******@192.0.2.9")
    curl = form.locator("button.curl")
    expect(curl).to_have_attribute("title", re.compile(r"DEPLOY_KERNEL_PASSWORD"))
    assert PASSWORD not in page.content()
    form.get_by_role("button", name="Save").click()
    form.get_by_role("button", name="Review 0 changes").wait_for()
    page.get_by_text("Change fields").click()
    patch = f'[{{"op": "add", "path": "/instance_info/kernel", "value": "{URL}"}}]'
    page.get_by_label("JSON Patch").fill(patch)
    expect(page.get_by_role("list", name="Changes")).to_contain_text("https://ann:******@192.0.2.9")
    assert PASSWORD not in page.content()


def test_password_of_an_inserted_image_is_in_no_preview(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("set-6")
    page.goto(to(live, "/v1/nodes/set-6/states"))
    page.get_by_label("Address of an image").fill(URL)
    page.get_by_role("button", name="Insert…", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("gets https://ann:******@192.0.2.9/deploy.kernel")
    title = dialog.locator("button.curl").get_attribute("title") or ""
    assert '"$IMAGE_URL_PASSWORD"' in title
    assert PASSWORD not in page.content()


def test_review_of_a_patch_shows_no_secret(page: sync_api.Page, live: service.Service) -> None:
    live.create("set-4")
    page.goto(to(live, "/v1/nodes/set-4?~tab=fields"))
    page.get_by_text("Change fields").click()
    patch = f'[{{"op": "add", "path": "/driver_info/ipmi_password", "value": "{PASSWORD}"}}]'
    page.get_by_label("JSON Patch").fill(patch)
    changes = page.get_by_role("list", name="Changes")
    expect(changes).to_contain_text("******")
    expect(changes).not_to_contain_text(PASSWORD)


def test_what_is_typed_stays_while_another_user_changes_the_node(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("412")
    live.create("set-7")
    page.goto(to(live, "/v1/nodes/set-7?~tab=fields"))
    form = page.get_by_role("form", name="Settings of set-7")
    patch = [{"op": "add", "path": "/resource_class", "value": "gpu"}]
    assert live.ask("PATCH", "/v1/nodes/set-7", patch).status_code == 200
    expect(form.get_by_label("Resource class")).to_have_value("gpu")
    form.get_by_label("Owner").fill("mine")
    patch = [{"op": "add", "path": "/owner", "value": "theirs"}]
    assert live.ask("PATCH", "/v1/nodes/set-7", patch).status_code == 200
    page.get_by_role("main").get_by_text("theirs").first.wait_for(state="attached")
    expect(form.get_by_label("Owner")).to_have_value("mine")
    form.get_by_role("button", name="Review 1 change").click()
    form.get_by_role("button", name="Save").click()
    form.get_by_role("button", name="Take theirs").click()
    expect(form.get_by_label("Owner")).to_have_value("theirs")
    expect(form.get_by_role("button", name="Review 0 changes")).to_be_disabled()
    form.get_by_label("Owner").fill("again")
    form.get_by_role("button", name="Discard").click()
    expect(form.get_by_label("Owner")).to_have_value("theirs")
    assert live.get("/v1/nodes/set-7")["owner"] == "theirs"


def test_what_is_typed_stays_when_the_tab_is_left(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("set-10", "set-11"):
        live.create(name)
    page.goto(to(live, "/v1/nodes/set-10?~tab=settings"))
    form = page.get_by_role("form", name="Settings of set-10")
    form.get_by_label("Owner").fill("mine")
    page.get_by_role("link", name="Overview").click()
    page.get_by_text("Changes of set-10 are not saved.").first.wait_for()
    page.goto(to(live, "/v1/nodes/set-11?~tab=settings"))
    other = page.get_by_role("form", name="Settings of set-11")
    expect(other.get_by_label("Owner")).to_have_value("")
    page.get_by_role("link", name="Show", exact=True).click()
    expect(form.get_by_label("Owner")).to_have_value("mine")
    form.get_by_role("button", name="Review 1 change").click()
    form.get_by_role("button", name="Save").click()
    form.get_by_role("button", name="Review 0 changes").wait_for()
    assert live.get("/v1/nodes/set-10")["owner"] == "mine"
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("navigation", name="Parts of the node").get_by_text("Settings").click()
    expect(form.get_by_label("Owner")).to_have_value("mine")
    expect(page.get_by_text("are not saved")).to_have_count(0)
