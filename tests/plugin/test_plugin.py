"""A driver of another project: built, installed apart, enabled by its operator, and used over HTTP.

``outlet/`` is the package as its authors would have it, ``broken/`` one of which nothing works.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import outlet_rack, plugin_wheels, service

# One worker builds once and starts the service once.
pytestmark = pytest.mark.xdist_group("plugin")

PREFIX = "R7/"
ENABLED = """\
[DEFAULT]
enabled_hardware_types = {types}
enabled_power_interfaces = fake, outlet{power}
enabled_deploy_interfaces = fake, outlet{deploy}
enabled_management_interfaces = fake, noop, outlet{management}
enabled_vendor_interfaces = fake, no-vendor, outlet
[outlet]
label_prefix = R7/
timeout = {timeout}
"""
GOOD = {"types": "fake-hardware, outlet", "power": "", "deploy": "", "management": ""}
BAD = {
    "types": "fake-hardware, outlet, strange",
    "power": ", twin, no-library",
    "deploy": ", badly-marked",
    "management": ", no-class",
}
KEYS = {"outlet_rack", "outlet_number", "outlet_password"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """Both packages, installed where only these processes look."""
    folder = tmp_path_factory.mktemp("plugin")
    target = plugin_wheels.install(folder, "outlet", "broken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(target))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield target


@contextlib.contextmanager
def running(timeout: str = "20", **enabled: str) -> Iterator[service.Service]:
    more = ENABLED.format(timeout=timeout, **{**GOOD, **enabled})
    with service.service(more, warm=False) as found:
        found.start("ironic-lite")
        found.up()
        yield found


@pytest.fixture(scope="module")
def metal(site: pathlib.Path) -> Iterator[service.Service]:
    """A service with the good driver, and with the broken ones beside it."""
    with running(**BAD) as found:
        yield found


@pytest.fixture(scope="module")
def machines() -> Iterator[outlet_rack.Rack]:
    with outlet_rack.serve() as found:
        yield found


def enroll(
    metal: service.Service, machines: outlet_rack.Rack, name: str, number: int
) -> dict[str, Any]:
    info = {"outlet_rack": machines.url, "outlet_number": number, "outlet_password": "volt-age"}
    metal.create(name, driver="outlet", driver_info=info)
    return metal.provision(name, "manage", "manageable")


def refused(metal: service.Service, method: str, path: str, body: Any) -> str:
    """Return the text of a 400."""
    answer = metal.ask(method, path, body)
    assert answer.status_code == 400, answer.text
    return answer.text


# -- what the API tells of it ----------------------------------------------------------------


def test_plugin_is_listed_with_its_interfaces(metal: service.Service) -> None:
    listed = [each["name"] for each in metal.get("/v1/drivers")["drivers"]]
    assert listed == ["fake-hardware", "outlet"]
    told = metal.get("/v1/drivers/outlet")
    defaults = {
        key.removeprefix("default_").removesuffix("_interface"): value
        for key, value in told.items()
        if key.startswith("default_")
    }
    own = dict.fromkeys(("deploy", "management", "power", "vendor"), "outlet")
    assert defaults == {
        **{kind: f"no-{kind}" for kind in defaults},
        **{"boot": "fake", "network": "noop", "storage": "noop"},
        **own,
    }
    assert told["enabled_deploy_interfaces"] == ["fake", "outlet"]
    assert told["enabled_management_interfaces"] == ["noop", "outlet"]


def test_plugin_shows_its_own_properties(metal: service.Service) -> None:
    told = metal.get("/v1/drivers/outlet/properties")
    assert set(told) == KEYS
    assert told["outlet_number"].endswith("Required.")
    details = metal.get("/v1/drivers/outlet/properties/detail")
    assert set(details) == KEYS
    assert {key: facts["required"] for key, facts in details.items()} == {
        "outlet_rack": True,
        "outlet_number": True,
        "outlet_password": False,
    }
    assert details["outlet_password"]["secret"] is True
    fake = metal.get("/v1/drivers/fake-hardware/properties")
    assert fake
    assert not KEYS & set(fake)


# -- a machine of its ------------------------------------------------------------------------


def test_a_node_is_enrolled_and_knows_its_steps(
    metal: service.Service, machines: outlet_rack.Rack
) -> None:
    node = enroll(metal, machines, "rack-1", 1)
    assert (node["power_interface"], node["raid_interface"]) == ("outlet", "no-raid")
    assert node["driver_info"]["outlet_password"] == "******"
    assert machines.logins == {"Basic YWRtaW46dm9sdC1hZ2U="}
    offered = metal.get("/v1/nodes/rack-1/cleaning/steps?min_priority=0")
    steps = {f"{step['interface']}.{step['step']}": step for step in offered}
    assert set(steps) == {"power.rest", "management.label", "deploy.wipe"}
    assert steps["deploy.wipe"]["priority"] == 10
    args = {arg["name"]: arg for arg in steps["management.label"]["args"]}
    assert args["text"]["required"] is True
    assert not args["blink"].get("required")
    verdicts = metal.get("/v1/nodes/rack-1/validate")
    assert verdicts["power"] == {"result": True}


def test_a_manual_clean_runs_its_steps_with_their_arguments_and_its_option_counts(
    metal: service.Service, machines: outlet_rack.Rack
) -> None:
    enroll(metal, machines, "rack-2", 2)
    wanted = [
        {"interface": "management", "step": "label", "args": {"text": "clean me", "blink": True}},
        {"interface": "power", "step": "rest", "args": {"seconds": 0}},
    ]
    node = metal.provision("rack-2", "clean", "manageable", clean_steps=wanted)
    assert machines.told[2] == [
        {"label": f"{PREFIX}clean me", "blink": True},
        {"on": False},
        {"on": True},
    ]
    assert node["power_state"] == "power on"
    assert node["driver_internal_info"]["driver_notes"] == {"outlet_rests": 1}


def test_the_values_of_arguments_are_the_drivers_business(
    metal: service.Service, machines: outlet_rack.Rack
) -> None:
    enroll(metal, machines, "rack-3", 3)
    path = "/v1/nodes/rack-3/states/provision"
    step = {"interface": "power", "step": "rest", "args": {"seconds": "long"}}
    assert metal.ask("PUT", path, {"target": "clean", "clean_steps": [step]}).status_code == 202

    def failed() -> Any:
        node = metal.get("/v1/nodes/rack-3")
        return node["provision_state"] == "clean failed" and node

    found = service.until(failed, "the failure")
    assert "power.rest" in found["last_error"]
    assert "seconds: 'long' is not from 0 to 600" in found["last_error"]


def test_plugin_deploys_and_its_automated_step_cleans(
    metal: service.Service, machines: outlet_rack.Rack
) -> None:
    enroll(metal, machines, "rack-4", 4)
    metal.provision("rack-4", "provide", "available")
    metal.provision("rack-4", "active", "active")
    assert machines.outlets[4]["on"] is True
    assert machines.outlets[4]["label"] == "rack-4"
    metal.provision("rack-4", "deleted", "available")
    assert machines.outlets[4]["on"] is False
    assert machines.told[4][-1] == {"label": "", "blink": False}


def test_plugin_answers_its_vendor_methods(
    metal: service.Service, machines: outlet_rack.Rack
) -> None:
    enroll(metal, machines, "rack-5", 5)
    path = "/v1/nodes/rack-5/vendor_passthru"
    assert set(metal.get(f"{path}/methods")) == {"limit"}
    answer = metal.ask("PUT", f"{path}?method=limit", {"watts": 60})
    assert (answer.status_code, answer.json()["limit"]) == (200, 60)
    assert "watts" in refused(metal, "PUT", f"{path}?method=limit", {"watts": "few"})
    assert machines.told[5] == [{"limit": 60}]
    assert metal.get("/v1/drivers/outlet/vendor_passthru?method=models") == ["R-24", "R-48"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"driver_info": {"outlet_number": 49}}, "driver_info/outlet_number"),
        ({"driver_info": {"outlet_rack": 7}}, "driver_info/outlet_rack"),
        ({"power_interface": "fake"}, "Hardware type outlet does not work with the power"),
        ({"power_interface": "twin"}, "twin is enabled but could not be loaded"),
        ({"power_interface": "pdu"}, "add it to [DEFAULT]enabled_power_interfaces"),
    ],
    ids=["number", "url", "not its own", "nobody's", "not installed"],
)
def test_nonsense_is_refused(metal: service.Service, body: dict[str, Any], named: str) -> None:
    assert named in refused(metal, "POST", "/v1/nodes", {"driver": "outlet", **body})


# -- what is broken --------------------------------------------------------------------------

BROKEN = {
    "hardware type strange": "supported names kinds that do not exist: wheels",
    "power interface no-library": "No module named 'a_library_nobody_has'",
    "power interface twin": "several packages bring this name: ironic_broken.hardware:Twin, "
    "ironic_outlet.power:OutletPower",
    "deploy interface badly-marked": "priority",
    "management interface no-class": "NotThere",
}


def complaints(metal: service.Service) -> dict[str, list[str]]:
    """Return the lines of the conductor's log about what is not loaded, by what that is."""
    (program,) = metal.running()
    # The program that starts the others loads all drivers, too, to refuse a bad configuration.
    (conductor,) = program.pids(service.CONDUCTOR_UP)
    found: dict[str, list[str]] = {}
    for line in program.said().splitlines():
        match = re.search(rf" {conductor} ERROR .* The (.*?) is not loaded: (.*)", line)
        if match:
            found.setdefault(match[1], []).append(match[2])
    return found


def test_each_broken_one_is_one_line_of_the_log(metal: service.Service) -> None:
    found = complaints(metal)
    assert set(found) == set(BROKEN)
    for what, (line,) in found.items():
        assert BROKEN[what] in line
    (program,) = metal.running()
    assert "Traceback" not in program.said()


def test_a_bad_option_costs_the_driver_that_has_it_and_nobody_else(site: pathlib.Path) -> None:
    with running(timeout="soon") as metal:
        found = complaints(metal)
        assert set(found) == {
            f"{kind} interface outlet" for kind in ("deploy", "management", "power", "vendor")
        }
        for (line,) in found.values():
            assert "[outlet]timeout: " in line
            assert "'soon'" in line
        said = refused(metal, "POST", "/v1/nodes", {"driver": "outlet"})
        assert "Hardware type outlet has no default power interface here" in said
        metal.create("unharmed")


def test_a_name_that_nothing_brings_stops_the_start(site: pathlib.Path) -> None:
    more = ENABLED.format(timeout="5", **{**GOOD, "power": ", pdu"})
    with service.service(more, warm=False) as found:
        program = found.start("ironic-lite")
        assert program.process.wait(service.PATIENCE) == 2
        (line,) = program.said().splitlines()
    assert "[DEFAULT]enabled_power_interfaces: nothing installed is called pdu" in line
    assert "outlet" in line


# -- its options -----------------------------------------------------------------------------


def test_plugin_options_are_in_the_sample(site: pathlib.Path) -> None:
    done = subprocess.run(
        [service.SCRIPTS / "oslo-config-generator", "--namespace", "outlet"],
        env=service.environment(),
        capture_output=True,
        text=True,
        timeout=service.PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "[outlet]" in done.stdout
    assert "#label_prefix =" in done.stdout
