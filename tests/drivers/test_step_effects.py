"""Declared effects of steps: every driver's own steps, and the agent's by name."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import steps
from ironic_lite.domain.step_effects import Effects
from ironic_lite.domain.steps import StepKind
from ironic_lite.drivers import base, registry
from ironic_lite.drivers.agent.direct import DirectDeploy
from ironic_lite.drivers.redfish.bios import RedfishBIOS
from tests.support.fake_task import FakeTask, node

UNDECLARED = {"vendor.send_raw"}
"""Its effect is that of the bytes that an operator gives."""
IMAGE = {"image_source": "http://192.0.2.1/image", "image_checksum": "a" * 64}


def declared_steps() -> list[tuple[str, StepKind, steps.Step]]:
    """Return all steps of all interfaces of this project."""
    found = []
    for interface in base.KINDS:
        for point in importlib.metadata.entry_points(group=f"{registry.INTERFACES}.{interface}"):
            if not point.value.startswith("ironic_lite."):
                continue
            for kind in StepKind:
                marked = steps.collect(interface, point.load(), kind)
                found += [(point.name, kind, one) for one in marked]
    return found


def test_every_own_step_declares_what_it_destroys() -> None:
    known = declared_steps()
    assert len(known) > 60
    silent = {one.title for _name, _kind, one in known if one.effects.destroys is None}
    assert silent == UNDECLARED


def test_effects_are_in_no_document_of_a_step() -> None:
    for _name, kind, one in declared_steps():
        shown = {**steps.as_driver_dict(one, kind), **steps.as_offer(one)}
        assert not {"effects", "destroys", "restarts", "lasting"} & set(shown)


@pytest.mark.parametrize(
    ("kind", "lasting"),
    [(StepKind.CLEAN, True), (StepKind.SERVICE, True), (StepKind.DEPLOY, False)],
)
def test_undeclared_step_has_unknown_effects(kind: StepKind, lasting: bool) -> None:
    decorate: dict[StepKind, Any] = {
        StepKind.CLEAN: base.clean_step(priority=0),
        StepKind.SERVICE: base.service_step(),
        StepKind.DEPLOY: base.deploy_step(priority=0),
    }

    class Silent(base.BIOS):
        @decorate[kind]  # type: ignore[untyped-decorator]
        def marked(self, task: base.Task) -> None:
            """Do something."""

        def cache_bios_settings(self, task: base.Task) -> list[base.BiosSetting]:
            return []

    task, interface = FakeTask(), Silent()
    for name in ("marked", "of_the_agent"):
        step: base.StoredStep = {"interface": "bios", "step": name}
        assert interface.effects(task, kind, step) == Effects(None, None, lasting)
        assert interface.lasts(task, kind, step) is lasting


@pytest.mark.parametrize("decorator", [base.clean_step, base.deploy_step, base.verify_step])
@pytest.mark.parametrize(
    "wrong", [{"destroys": ("disks",)}, {"destroys": "data"}, {"restarts": -1}, {"restarts": True}]
)
def test_wrong_effects_are_refused_when_the_class_is_defined(
    decorator: Any, wrong: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        decorator(priority=0, **wrong)
    assert caught.value.facts["path"] in wrong


def test_words_come_in_a_fixed_order() -> None:
    class Raid:
        @base.clean_step(priority=0, destroys={"volumes", "data"}, restarts=2)
        def delete(self, task: object) -> None:
            """Delete all."""

    (found,) = steps.collect("raid", Raid, StepKind.CLEAN)
    assert found.effects == Effects(("data", "volumes"), 2, lasting=True)


@pytest.mark.parametrize(
    ("step", "kind", "effects"),
    [
        ({"step": "erase_devices"}, StepKind.CLEAN, Effects(("data",), 0, lasting=True)),
        (
            {"step": "burnin_cpu", "reboot_requested": True},
            StepKind.SERVICE,
            Effects((), 1, lasting=True),
        ),
        ({"step": "inject_files"}, StepKind.DEPLOY, Effects((), 0, lasting=False)),
        ({"step": "of_a_vendor"}, StepKind.CLEAN, Effects(None, None, lasting=True)),
        ({"step": "deploy"}, StepKind.DEPLOY, Effects((), 1, lasting=False)),
    ],
)
def test_agents_steps_have_effects_by_name(
    step: dict[str, Any], kind: StepKind, effects: Effects
) -> None:
    stored: Any = {"interface": "deploy", **step}
    assert DirectDeploy().effects(FakeTask(), kind, stored) == effects


@pytest.mark.parametrize(
    ("more", "lasting"),
    [({}, True), ({"image_type": "partition", "root_gb": 5}, False), ({"image_type": 3}, False)],
)
def test_only_a_whole_disk_image_lasts(more: dict[str, Any], lasting: bool) -> None:
    task = FakeTask(node(instance_info={**IMAGE, **more}))
    step: base.StoredStep = {"interface": "deploy", "step": "write_image"}
    assert DirectDeploy().lasts(task, StepKind.DEPLOY, step) is lasting
    assert DirectDeploy().effects(task, StepKind.DEPLOY, step).destroys == ("data",)


def test_settings_of_a_bios_outlive_a_restart_in_a_deployment() -> None:
    step: base.StoredStep = {"interface": "bios", "step": "apply_configuration"}
    found = RedfishBIOS().effects(FakeTask(), StepKind.DEPLOY, step)
    assert found == Effects(("settings",), 1, lasting=True)
