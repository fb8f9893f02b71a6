"""A task without a conductor, for tests of drivers; it records what drivers do with it."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ironic_lite.domain import inspection
from ironic_lite.drivers import base, noop, registry
from ironic_lite.drivers.fake import hardware
from ironic_lite.records import Portgroup, StoredStep

LOG = logging.getLogger(__name__)

FAKE = base.Driver(
    hardware_type="fake-hardware",
    bios=hardware.FakeBIOS(),
    boot=hardware.FakeBoot(),
    console=hardware.FakeConsole(),
    deploy=hardware.FakeDeploy(),
    firmware=hardware.FakeFirmware(),
    inspect=hardware.FakeInspect(),
    management=hardware.FakeManagement(),
    network=noop.NoopNetwork(),
    power=hardware.FakePower(),
    raid=hardware.FakeRAID(),
    rescue=hardware.FakeRescue(),
    storage=noop.NoopStorage(),
    vendor=hardware.FakeVendor(),
)


def node(**values: Any) -> base.Node:
    """Return a node with the columns that drivers meet."""
    row: dict[str, Any] = {
        "uuid": str(uuid.uuid4()),
        "name": None,
        "driver": "fake-hardware",
        "driver_info": {},
        "driver_internal_info": {},
        "properties": {},
        "instance_info": {},
        "extra": {},
        "power_state": None,
        "last_error": None,
        "provision_state": "manageable",
        "run_uuid": None,
        "agent_pin": None,
        "agent_heard_at": None,
        "disable_power_off": False,
        "raid_config": None,
        "target_raid_config": None,
        "lessee": None,
        "boot_interface": None,
        "boot_mode": None,
        "network_data": None,
        "secure_boot": None,
    }
    return base.Node({**row, **values})


class FakeCards:
    """The ports of a node without portgroups; what is noted stays on them."""

    def __init__(self, ports: Sequence[base.Port]) -> None:
        self._ports = ports

    def all(self) -> Sequence[base.Port]:
        return self._ports

    def groups(self) -> Sequence[Portgroup]:
        return ()

    def note(self, card: base.Port | Portgroup, key: str, value: Any) -> None:
        info = {name: held for name, held in card.internal_info.items() if name != key}
        card.internal_info = info if value is None else {**info, key: value}


class FakeTask:
    """Implements ``base.Task``.

    ``timers`` and ``pauses`` list the seconds asked for; no test sleeps. ``added`` are the
    addresses of ports, ``inventory`` is the last one with its plug-in data. ``agent`` is set by a
    test, ``token`` is the one made before a boot. ``confirmed`` counts questions for the lock.
    ``notes`` has what `keep` stored, as JSON by key.
    """

    def __init__(
        self,
        node_: base.Node | None = None,
        *,
        driver: base.Driver = FAKE,
        ports: Sequence[base.Port] = (),
        **driver_info: Any,
    ) -> None:
        self.node = node_ if node_ is not None else node(driver_info=driver_info)
        self.driver = driver
        self._ports = ports
        self.notes: dict[str, str] = {}
        self.version: Mapping[str, str] | None = None
        self.failing = False
        self.documents: dict[str, Any] = {}
        self.agent: base.Agent | None = None
        self.token: str | None = None
        self.timers: list[float] = []
        self.pauses: list[float] = []
        self.confirmed = 0
        self.added: list[str] = []
        self.inventory: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None

    @property
    def ports(self) -> Sequence[base.Port]:
        return self._ports

    @property
    def node_ports(self) -> base.Cards:
        return FakeCards(self._ports)

    def add_ports(
        self, addresses: Iterable[str], client_ids: Mapping[str, str] | None = None
    ) -> None:
        self.added.extend(addresses)

    def keep_inventory(self, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]) -> None:
        self.inventory = (inventory, plugin_data)

    def run_hooks(
        self,
        names: Iterable[str],
        inventory: Mapping[str, Any],
        plugin_data: Mapping[str, Any],
        *,
        properties: dict[str, Any] | None = None,
        remarks: Sequence[str] = (),
        incomplete: bool = False,
    ) -> base.Case:
        case = base.Case(
            inventory,
            dict(plugin_data),
            dict(self.node.properties if properties is None else properties),
            registry.hook_options(),
            extra=dict(self.node.extra or {}),
            ports={port.address: inspection.inspected(port) for port in self._ports},
            remarks=list(remarks),
            incomplete=incomplete,
        )
        return inspection.run(registry.inspection_hooks(names), case)

    def keep_result(self, case: base.Case) -> None:
        """Keep what hooks have found; ``result`` is the whole case."""
        self.result = case
        for remark in case.remarks:
            LOG.warning("Node %s: %s", self.node.uuid, remark)
        self.node.properties, self.node.extra = case.properties, case.extra
        known = {port.address for port in self._ports}
        self.added.extend(address for address in case.ports if address not in known)
        self.keep_inventory(case.inventory, case.plugin_data)

    def recall(self, key: str, default: Any = None) -> Any:
        return json.loads(self.notes[key]) if key in self.notes else default

    def keep(self, key: str, value: Any) -> None:
        if value is None:
            self.notes.pop(key, None)
        else:
            self.notes[key] = json.dumps(value)

    def save(self) -> None:
        """Keep nothing more: notes of this task are saved at once."""

    def switch_power(self, target: str, timeout: float | None = None) -> None:
        if target in (base.REBOOT, base.SOFT_REBOOT):
            self.driver.power.reboot(self, timeout, soft=target == base.SOFT_REBOOT)
        else:
            self.driver.power.set_power_state(self, target, timeout)

    def new_agent_token(self) -> str:
        self.token = f"token-{uuid.uuid4()}"
        return self.token

    def forget_agent(self, *, keep_token: bool = False) -> None:
        self.agent = None
        if not keep_token:
            self.token = None

    @property
    def manager_version(self) -> Mapping[str, str] | None:
        return self.version

    @property
    def step_id(self) -> str:
        return f"{self.node.uuid}/0/0"

    def report_erasure(self, report: object) -> None:
        """Keep the report of an erasing step."""
        self.erasure = report

    def wake_after(self, seconds: float) -> None:
        self.timers.append(seconds)

    def confirm_lock(self, *, changes: bool = False) -> None:
        self.confirmed += 1

    @property
    def lock_is_sure(self) -> bool:
        return True

    def pause(self, seconds: float) -> None:
        self.documents.clear()
        self.pauses.append(seconds)

    def elsewhere(self) -> FakeTask:
        """Return the task another conductor has on this node: only what is saved comes along."""
        saved = json.loads(json.dumps(self.node.as_dict()))
        other = FakeTask(base.Node(saved), driver=self.driver)
        other.notes = dict(self.notes)
        return other


def step(title: str, **args: Any) -> StoredStep:
    """Return a step as the engine hands it to a driver."""
    interface, _, name = title.partition(".")
    return {"interface": interface, "step": name, "args": args}


def run(task: FakeTask, kind: base.StepKind, title: str, **args: Any) -> base.Outcome | None:
    """Run one step as the engine does."""
    wanted = step(title, **args)
    interface = task.driver.interface(wanted["interface"])
    outcome: base.Outcome | None = getattr(interface, f"execute_{kind}_step")(task, wanted)
    return outcome


def clean(task: FakeTask, title: str, **args: Any) -> base.Outcome | None:
    """Run one clean step."""
    return run(task, base.StepKind.CLEAN, title, **args)
