"""The form of a deployment: image, checksum and config drive."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import confirm, dialog_of, state
from tests.window.test_enroll import typed_nowhere

expect = sync_api.expect
IMAGE = "http://192.0.2.1/form.qcow2"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIForm ann@home"
DATA = "#cloud-config\npassword: hunter2hunter2\n"


def test_machine_is_deployed_with_image_and_config_drive(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("drive-0", resource_class="of-form", instance_info={"image_source": IMAGE})
    live.create("drive-1", resource_class="of-form")
    for target, reached in (("manage", "manageable"), ("provide", "available")):
        live.provision("drive-1", target, reached)
    dialog = dialog_of(page, live, "drive-1", "Deploy…")
    dialog.locator("datalist option").first.wait_for(state="attached")
    assert dialog.locator("datalist option").get_attribute("value") == IMAGE
    dialog.get_by_label("Image", exact=True).fill(IMAGE)
    dialog.get_by_label("Checksum").fill("a" * 64)
    dialog.get_by_role("button", name="Save the image").click()
    expect(dialog.get_by_role("button", name="Save the image")).to_have_count(0)
    info = live.get("/v1/nodes/drive-1")["instance_info"]
    assert info == {"image_source": IMAGE, "image_checksum": "a" * 64}
    dialog.get_by_text("Config drive").click()
    dialog.get_by_label("Host name").fill("drive-one")
    dialog.get_by_label("SSH key").fill(KEY)
    dialog.get_by_label("User data").fill(DATA)
    typed_nowhere(page, "hunter2hunter2")
    with page.expect_request(lambda sent: sent.url.endswith("/states/provision")) as sent:
        confirm(page, "Deploy drive-1", typed="drive-1")
    assert sent.value.post_data_json == {
        "target": "active",
        "configdrive": {
            "meta_data": {"hostname": "drive-one", "public_keys": {"default": KEY}},
            "user_data": DATA,
        },
    }
    state(page, "active").wait_for()
    typed_nowhere(page, "hunter2hunter2")
    page.goto("about:blank")  # other tests count active nodes
    assert live.ask("PUT", "/v1/nodes/drive-1/maintenance", {}).status_code == 202
    assert live.ask("DELETE", "/v1/nodes/drive-1").status_code == 204


def test_image_is_taken_away(page: sync_api.Page, live: service.Service) -> None:
    live.create("drive-2", instance_info={"image_source": IMAGE})
    for target, reached in (("manage", "manageable"), ("provide", "available")):
        live.provision("drive-2", target, reached)
    dialog = dialog_of(page, live, "drive-2", "Deploy…")
    image = dialog.get_by_label("Image", exact=True)
    expect(image).to_have_value(IMAGE)
    image.fill("")
    dialog.get_by_role("button", name="Save the image").click()
    expect(dialog.get_by_role("button", name="Save the image")).to_have_count(0)
    assert live.get("/v1/nodes/drive-2")["instance_info"] == {}


def test_deploy_requires_a_saved_image(page: sync_api.Page, live: service.Service) -> None:
    live.create("drive-3", instance_info={"image_source": IMAGE})
    for target, reached in (("manage", "manageable"), ("provide", "available")):
        live.provision("drive-3", target, reached)
    dialog = dialog_of(page, live, "drive-3", "Deploy…")
    button = dialog.get_by_role("button", name="Deploy drive-3")
    button.wait_for()
    image = dialog.get_by_label("Image", exact=True)
    image.fill(f"{IMAGE}.new")
    expect(dialog).to_contain_text("Save the image first.")
    expect(button).to_have_count(0)
    image.press("Enter")
    dialog.get_by_role("button", name="Save the image").click()
    button.wait_for()
    found = live.get("/v1/nodes/drive-3")
    assert found["provision_state"] == "available"
    assert found["instance_info"] == {"image_source": f"{IMAGE}.new"}


def test_name_that_is_typed_after_the_image_was_saved_stays(
    page: sync_api.Page, live: service.Service
) -> None:
    uuid = live.create("drive-4")
    for target, reached in (("manage", "manageable"), ("provide", "available")):
        live.provision("drive-4", target, reached)
    held: list[sync_api.Route] = []
    saved: list[str] = []

    def hold_back(route: sync_api.Route) -> None:
        # The node with the new image is read late.
        if saved and not held:
            held.append(route)
            return
        if route.request.method == "PATCH":
            saved.append(route.request.url)
        route.continue_()

    dialog = dialog_of(page, live, "drive-4", "Deploy…")
    dialog.get_by_label("Image", exact=True).fill(IMAGE)
    page.route(f"**/v1/nodes/{uuid}", hold_back)
    save = dialog.get_by_role("button", name="Save the image")
    with page.expect_response(lambda one: one.request.method == "PATCH"):
        save.click()
    service.until(lambda: page.evaluate("() => 1") and held, "the node to be read again")
    expect(save).to_be_disabled()
    expect(dialog).to_contain_text("Save the image first.")
    plans: list[str] = []

    def note(asked: sync_api.Request) -> None:
        if asked.url.endswith("/plan"):
            plans.append(asked.url)

    page.on("request", note)
    held[0].continue_()
    name = dialog.get_by_label("Type the name of the node")
    name.fill("drive-4")
    page.wait_for_timeout(3000)  # longer than the dialog waits before it reads the node again
    expect(name).to_have_value("drive-4")
    expect(dialog.get_by_role("button", name="Deploy drive-4")).to_be_enabled()
    assert len(plans) == 1
