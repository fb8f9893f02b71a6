"""What each hardware type says of driver_info is what its nodes heed, by default."""

from __future__ import annotations

import functools

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base, registry
from tests.support import conductor_fixture, fake_task

TYPES = ("fake-hardware", "ipmi", "manual-management", "redfish")
REQUIRED = {"ipmi": "ipmi_address", "redfish": "redfish_address"}
STEPS = {"fake_step_seconds", "fake_async_steps", "fake_fail_steps"}
DEPLOY = {*STEPS, "fake_fail_verbs", "fake_steps_unavailable", "fake_agent", "fake_erasures"}
FAKE = {
    "ipmi": DEPLOY,
    "redfish": DEPLOY,
    "manual-management": {*DEPLOY, "fake_fail_power"},
    "fake-hardware": {*DEPLOY, "fake_fail_power", "fake_fail_calls", "fake_async_verbs"}
    | {"fake_ports", "fake_vendor"},
}
"""The keys that are heeded where deploy, or more, is a rehearsal."""
REHEARSED: dict[str, list[str]] = {
    f"DEFAULT__enabled_{kind}_interfaces": ["fake"] for kind in ("boot", "deploy")
}


@functools.cache
def found(*, rehearsed: bool = True) -> registry.Registry:
    """Return the drivers of a default configuration, or of one whose deployments touch no disk."""
    more = REHEARSED if rehearsed else {}
    conf = conductor_fixture.configure(DEFAULT__enabled_hardware_types=list(TYPES), **more)
    return registry.Registry.load(registry.Settings.read(conf))


@pytest.mark.parametrize("rehearsed", [True, False], ids=["rehearsed", "default"])
@pytest.mark.parametrize("name", TYPES)
def test_a_hardware_type_names_the_keys_of_its_default_interfaces(
    name: str, rehearsed: bool
) -> None:
    drivers = found(rehearsed=rehearsed)
    driver = drivers.driver_for(name, {})
    wanted: dict[str, str] = {}
    for kind in base.KINDS:
        wanted.update(driver.interface(kind).get_properties())
    told = drivers.properties(name)
    assert told == wanted
    assert list(told) == sorted(told)
    assert all(text.endswith(".") for text in told.values())


@pytest.mark.parametrize("name", TYPES)
def test_no_key_is_of_another_kind_of_machine(name: str) -> None:
    told = set(found().properties(name))
    real = {key for key in told if not key.startswith("fake_")}
    assert told - real == FAKE[name]
    # A power interface tells all keys of its technology.
    own = set(found().driver_for(name, {}).power.get_properties()) - STEPS - {"fake_fail_power"}
    assert real == own
    assert bool(real) is (name in REQUIRED)


@pytest.mark.parametrize("name", REQUIRED)
def test_missing_required_property_is_reported(name: str) -> None:
    told = found().properties(name)
    required = {key for key, text in told.items() if "Required." in text}
    assert required == {REQUIRED[name]}
    task = fake_task.FakeTask(fake_task.node(driver=name), driver=found().driver_for(name, {}))
    with pytest.raises(errors.MissingParameter, match=f"driver_info/{REQUIRED[name]}"):
        task.driver.power.validate(task)


@pytest.mark.parametrize("name", TYPES)
def test_another_default_tells_other_keys(name: str) -> None:
    conf = conductor_fixture.configure(
        **REHEARSED,
        DEFAULT__enabled_hardware_types=list(TYPES),
        DEFAULT__enabled_inspect_interfaces=["no-inspect", "fake"],
        DEFAULT__default_inspect_interface="fake",
    )
    other = registry.Registry.load(registry.Settings.read(conf))
    assert {"fake_ports", "fake_async_verbs"} <= set(other.properties(name))


TEXTS = {
    "ipmi": ("ipmi_username", "ipmi_password", "ipmi_hex_kg_key", "ipmi_address"),
    "redfish": ("redfish_username", "redfish_password", "redfish_address"),
}
_OF_ALL = ("kernel_append_params", "image_http_proxy", "image_no_proxy")


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name in TEXTS for key in (*TEXTS[name], *_OF_ALL)]
)
def test_text_of_digits_may_be_a_number(name: str, key: str) -> None:
    """Ironic's command line sends ``--driver-info redfish_password=12345`` as a number."""
    driver = found(rehearsed=False).driver_for(name, {})
    for kind in base.KINDS:
        driver.interface(kind).check_driver_info({key: 123456})
