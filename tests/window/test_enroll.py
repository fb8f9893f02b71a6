"""The form that enrolls a machine, and checks its BMC first."""

from __future__ import annotations

import json
from typing import Any

from playwright import sync_api

from tests.emulators import bmc
from tests.support import service
from tests.window.acts import state, to

expect = sync_api.expect
USER, PASSWORD, WRONG = "root", "s3cret-w0rd", "wr0ng-w0rd"


def open_enroll(page: sync_api.Page, live: service.Service, driver: str) -> sync_api.Locator:
    """Open the dialog that enrolls a machine of a driver."""
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("button", name="Enroll…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Driver").select_option(driver)
    return dialog


def typed_nowhere(page: sync_api.Page, *secrets: str) -> None:
    """Check that no secret is in the address, the storage or the text of a page."""
    kept: str = page.evaluate(
        "JSON.stringify([location.href, {...localStorage}, {...sessionStorage}, history.state,"
        " document.documentElement.outerHTML])"
    )
    assert [word for word in secrets if word in kept] == []


def test_redfish_machine_is_enrolled_and_checked_by_form(
    page: sync_api.Page, live: service.Service
) -> None:
    with bmc.serve(users={USER: PASSWORD}) as machine:
        dialog = open_enroll(page, live, "redfish")
        enroll = dialog.get_by_role("button", name="Enroll", exact=True)
        expect(enroll).to_be_disabled()
        dialog.get_by_label("Name", exact=True).fill("form-1")
        dialog.get_by_label("Resource class").fill("gpu")
        dialog.get_by_label("MAC address").fill("52:54:00:0f:00:01")
        info = machine.driver_info
        dialog.get_by_label("redfish_address", exact=True).fill(info["redfish_address"])
        dialog.get_by_label("redfish_username", exact=True).fill(USER)
        password = dialog.get_by_label("redfish_password", exact=True)
        expect(password).to_have_attribute("type", "password")
        password.fill(WRONG)
        for name in ("redfish_verify_ca", "redfish_system_id"):
            if info.get(name) is not None:
                dialog.get_by_label(name, exact=True).fill(str(info[name]))
        dialog.get_by_role("button", name="Check the BMC").click()
        checks = dialog.locator(".checks")
        expect(checks).to_contain_text("bmc_login")
        expect(checks.get_by_role("listitem").first.locator(".failed")).to_have_count(1)
        typed_nowhere(page, WRONG)
        password.fill(PASSWORD)
        dialog.get_by_role("button", name="Check again").click()
        expect(checks.locator("li", has_text="bmc_login").locator(".ok")).to_have_count(1)
        enroll.click()
        dialog.wait_for(state="detached")
        state(page, "enroll").wait_for()
        typed_nowhere(page, PASSWORD, WRONG)
        node = live.get("/v1/nodes/form-1")
        assert node["resource_class"] == "gpu"
        assert node["driver_info"]["redfish_username"] == USER
        ports = live.get("/v1/ports?node=form-1&fields=address")["ports"]
        assert [port["address"] for port in ports] == ["52:54:00:0f:00:01"]
        live.provision("form-1", "manage", "manageable")


def test_checked_machine_is_discarded(page: sync_api.Page, live: service.Service) -> None:
    dialog = open_enroll(page, live, "ipmi")
    dialog.get_by_label("Name", exact=True).fill("form-2")
    dialog.get_by_label("ipmi_address", exact=True).fill("127.0.0.1")
    dialog.get_by_role("button", name="Check the BMC").click()
    expect(dialog.locator(".checks")).to_contain_text("node form-2")
    assert live.get("/v1/nodes/form-2")["provision_state"] == "enroll"
    dialog.get_by_role("button", name="Discard").click()
    dialog.wait_for(state="detached")
    assert live.ask("GET", "/v1/nodes/form-2").status_code == 404


def test_required_keys_and_groups_are_those_of_the_driver(
    page: sync_api.Page, live: service.Service
) -> None:
    dialog = open_enroll(page, live, "redfish")
    details: dict[str, Any] = live.get("/v1/drivers/redfish/properties/detail")
    dialog.get_by_label("redfish_address", exact=True).wait_for()
    for name, about in details.items():
        field = dialog.locator("label", has_text=name).locator(
            f"input[title={json.dumps(about['description'])}]"
        )
        expect(field).to_have_count(1)
    groups = dialog.locator("details > summary").all_inner_texts()
    assert groups == list(
        dict.fromkeys(
            about["group"] for about in sorted(details.values(), key=lambda one: one["order"])
        )
    )
    assert dialog.locator("details[open] > summary").all_inner_texts() == ["BMC"]
    expect(dialog.get_by_role("button", name="Enroll", exact=True)).to_be_disabled()
    dialog.get_by_label("redfish_address", exact=True).fill("https://192.0.2.1")
    expect(dialog.get_by_role("button", name="Enroll", exact=True)).to_be_enabled()
