"""The RAID interface of Redfish: volumes created and deleted through the BMC.

A step first reads the controllers, chooses the disks and saves its plan on the node without
changing anything. Each later poll does the next part of the plan: see `volume_changes`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import raid
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import interface
from ironic_lite.drivers.redfish.bmc import connection, jobs, quirks
from ironic_lite.drivers.redfish.raid import selection, storage, volume_changes

NOTE = "redfish_raid"
"""Key of the plan on the node while a step is running."""

_INTERFACES = ("sata", "sas")


class RedfishRAID(interface.RedfishInterface, base.RAID):
    """The raid interface ``redfish``."""

    def validate(self, task: base.Task) -> None:
        """Check driver_info and the node's target_raid_config, if it has one.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the path.
        """
        super().validate(task)
        if task.node.target_raid_config:
            _checked_configuration(task.node.target_raid_config, "target_raid_config")

    def validate_raid_config(self, task: base.Task, config: JsonView) -> None:
        """Reject a configuration that no Redfish controller can build.

        :raises errors.InvalidParameter: naming the path.
        """
        _checked_configuration(config, "")

    # -- steps ----------------------------------------------------------------------------

    @base.clean_step(
        priority=0, requires_ramdisk=False, argsinfo=raid.CREATE_ARGS, destroys=("data", "volumes")
    )
    def create_configuration(
        self,
        task: base.Task,
        *,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> base.Outcome:
        """Build the volumes of the node's ``target_raid_config``.

        :raises errors.MissingParameter: the node has no target_raid_config.
        :raises errors.InvalidParameter: this machine cannot build it; naming the path.
        """
        root = "target_raid_config"
        if not task.node.target_raid_config:
            raise errors.MissingParameter(path=root)
        asked = _checked_configuration(task.node.target_raid_config, root)
        wanted = raid.wanted(
            asked,
            create_root_volume=create_root_volume,
            create_nonroot_volumes=create_nonroot_volumes,
        )
        return self._build_volumes(task, _disks_with_paths(root, asked, wanted), delete_existing)

    @base.deploy_step(
        priority=0,
        abortable=False,
        argsinfo=raid.APPLY_ARGS,
        rerunnable=True,
        destroys=("data", "volumes"),
        lasting=True,
    )
    @base.service_step(
        argsinfo=raid.APPLY_ARGS,
        requires_ramdisk=False,
        rerunnable=True,
        destroys=("data", "volumes"),
    )
    def apply_configuration(
        self,
        task: base.Task,
        *,
        raid_config: Json,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> base.Outcome:
        """Build the volumes of ``raid_config``.

        :raises errors.InvalidParameter: this machine cannot build it; naming the path.
        """
        root = "raid_config"
        asked = _checked_configuration(raid_config, root)
        wanted = raid.wanted(
            asked,
            create_root_volume=create_root_volume,
            create_nonroot_volumes=create_nonroot_volumes,
        )
        return self._build_volumes(task, _disks_with_paths(root, asked, wanted), delete_existing)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=("data", "volumes"))
    @base.deploy_step(
        priority=0, abortable=False, rerunnable=True, destroys=("data", "volumes"), lasting=True
    )
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=("data", "volumes"))
    def delete_configuration(self, task: base.Task) -> base.Outcome:
        """Delete all volumes of all RAID controllers, whatever created them."""
        there = connection.call(task, storage.read)
        return self._start_changes(task, there, _deletion_orders(there), [])

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Do the next part of the plan.

        :raises errors.StepFailed: the BMC refused, a task failed, or a time limit was exceeded.
        """
        kept = task.recall(NOTE)
        if kept is None:
            reason = "the plan of the step is lost; run it again"
            raise errors.StepFailed(step="raid", reason=reason)
        work = volume_changes.Work.of(kept)
        try:
            pause = volume_changes.go_on(task, work)
            built = self._logical_disks(task, work) if pause is None else []
        except (errors.BmcUnreachable, errors.BmcBadAnswer, errors.BmcAccessDenied) as why:
            return self._await_bmc(task, work, why)
        if pause is None:
            self.show_raid(task, built)
            task.keep(NOTE, None)
            return base.DONE
        work.silent = None
        task.keep(NOTE, work.saved())
        task.wake_after(pause)
        return base.WAIT

    # -- the plan -------------------------------------------------------------------------

    def _build_volumes(
        self, task: base.Task, wanted: Sequence[tuple[str, Json]], delete_existing: object
    ) -> base.Outcome:
        emptied = raid.flag("delete_existing", delete_existing)
        there = connection.call(task, storage.read)
        offered = [one.offered(emptied=emptied) for one in there]
        choices = sorted(selection.choose(wanted, offered), key=lambda one: one.last)
        unnamed = quirks.UNNAMED_VOLUME
        if named := unnamed.fits(connection.call(task, _machine_maker)):
            unnamed.log(f"Node {task.node.uuid}")
        names = _free_names(wanted, there)
        used = {choice.controller.name for choice in choices}
        homes = {one.name: one for one in there if one.name in used}
        properties = {name: _creation_annotations(task, home) for name, home in homes.items()}
        creations = [
            _creation_order(choice, homes, properties, names, named=named) for choice in choices
        ]
        disks = [dict(choice.wanted) for choice in choices]
        deletions = _deletion_orders(there) if emptied else []
        return self._start_changes(task, there, [*deletions, *creations], disks)

    def _start_changes(
        self,
        task: base.Task,
        there: Sequence[storage.Controller],
        work: list[volume_changes.Order],
        disks: list[Json],
    ) -> base.Outcome:
        """Save the plan; the first poll follows at once."""
        if not work:
            self.show_raid(task, [])
            return base.DONE
        going = {one.path for one in work if one.do == volume_changes.DELETE}
        volumes = [one.path for each in there for one in each.volumes]
        for order in work:
            order.by = jobs.CLAIMS.make()
        plan = volume_changes.Work(
            orders=work,
            until=clock.stamp() + volume_changes.timeout(),
            before=[path for path in volumes if path not in going],
            disks=disks,
            make=connection.call(task, _machine_maker),
        )
        task.keep(NOTE, plan.saved())
        task.wake_after(0)
        return base.WAIT

    def _await_bmc(
        self, task: base.Task, work: volume_changes.Work, why: errors.HardwareError
    ) -> base.Outcome:
        """Wait for a BMC without a usable answer, because it may be restarting.

        A starting BMC may not know its users or its volumes yet.
        """
        work.silent = work.silent or clock.stamp()
        silent, limit = clock.lived_since(work.silent), config.CONF.redfish.bmc_silence_timeout
        if silent >= limit or clock.over(work.until, volume_changes.timeout()):
            doing = work.stage[0].name if work.stage else "read the volumes"
            reason = (
                f"no usable answer of the BMC for {silent:.0f} s while it was to "
                f"{doing}: {why} Then check the volumes of the machine, and run the step again"
            )
            raise errors.StepFailed(step="raid", reason=reason)
        task.keep(NOTE, work.saved())
        task.wake_after(volume_changes.retry_pause(why))
        return base.WAIT

    # -- the result -----------------------------------------------------------------------

    def _logical_disks(self, task: base.Task, work: volume_changes.Work) -> list[Json]:
        """Return the node's logical disks: the new ones and those built before.

        :raises errors.StepFailed: a volume is missing or too small, even if its task succeeded.
        """
        there = connection.call(task, storage.read)
        created = [one for one in work.orders if one.do == volume_changes.CREATE]
        found = [
            _logical_disk(work, order, disk, there)
            for order, disk in zip(created, work.disks, strict=True)
        ]
        new = {(one["controller"], one["id"]) for one in found}
        places = {(each.name, one.ident): one.path for each in there for one in each.volumes}
        known = (task.node.raid_config or {}).get("logical_disks") or []
        if any(map(raid.is_root, found)):
            # There is only one root volume: the one requested last.
            known = [
                {**one, "is_root_volume": False} if raid.is_root(one) else one for one in known
            ]
        kept = [
            one
            for one in known
            if (key := (one.get("controller"), one.get("id"))) not in new
            and places.get(key) in work.before
        ]
        return [*kept, *found]


# -- from configurations to requests and back -------------------------------------------------


def _checked_configuration(config: object, root: str) -> list[Json]:
    """Return the logical disks of a configuration after checking them for Redfish."""
    disks = raid.check(config, root)
    for place, disk in enumerate(disks):
        path = "/".join(filter(None, (root, "logical_disks", str(place))))
        for key, reason in _disk_refusals(disk):
            raise errors.InvalidParameter(path=f"{path}/{key}", reason=reason)
    return disks


def _disk_refusals(disk: Json) -> Sequence[tuple[str, str]]:
    level = disk["raid_level"]
    hints = [one for one in disk.get("physical_disks", ()) if not isinstance(one, str)]
    checks = (
        (
            "raid_level",
            level not in selection.LEVELS,
            f"{level} is not possible by Redfish; possible are {', '.join(selection.LEVELS)}",
        ),
        ("size_gb", disk["size_gb"] == 0, "a volume has at least 1 GiB"),
        (
            "interface_type",
            disk.get("interface_type", "sas") not in _INTERFACES,
            f"Redfish disks are {' or '.join(_INTERFACES)}",
        ),
        ("physical_disks", bool(hints), "must be names; hints are for software RAID"),
    )
    return [(key, reason) for key, wrong, reason in checks if wrong]


def _disks_with_paths(root: str, asked: list[Json], wanted: list[Json]) -> list[tuple[str, Json]]:
    """Return the wanted logical disks, each with its path."""
    return [
        (f"{root}/logical_disks/{place}", disk)
        for place, disk in enumerate(asked)
        if any(disk is one for one in wanted)
    ]


def _deletion_orders(there: Sequence[storage.Controller]) -> list[volume_changes.Order]:
    return [
        volume_changes.Order(
            volume_changes.DELETE,
            volume.path,
            f"delete volume {volume.name} of controller {each.name}",
            when=_apply_time(each.times if volume.times is None else volume.times),
        )
        for each in there
        for volume in each.volumes
        if not volume.raw
    ]


def _creation_order(
    choice: selection.Choice,
    homes: Mapping[str, storage.Controller],
    properties: Mapping[str, Json],
    free_names: Iterator[str],
    *,
    named: bool,
) -> volume_changes.Order:
    """Return the request for a volume.

    :param homes: the chosen controllers by name; ``properties`` has their annotations.
    :param free_names: for volumes that need a name but have none.
    :param named: each volume needs a name.
    """
    home, creation = homes[choice.controller.name], properties[choice.controller.name]
    wanted = choice.wanted
    body: Json = {
        "RAIDType": storage.RAID_TYPES[wanted["raid_level"]],
        "Links": {"Drives": [{"@odata.id": disk.path} for disk in choice.disks]},
    }
    if choice.size is not None:
        body["CapacityBytes"] = choice.size
    needed = named or creation.get("Name@Redfish.RequiredOnCreate") is True
    if "volume_name" in wanted or needed:
        body[_name_key(creation)] = wanted.get("volume_name") or next(free_names)
    names = ", ".join(disk.name for disk in choice.disks)
    name = f"create RAID {wanted['raid_level']} on disks {names} of controller {home.name}"
    return volume_changes.Order(
        volume_changes.CREATE, home.volumes_path, name, body, when=_apply_time(home.times)
    )


def _creation_annotations(task: base.Task, home: storage.Controller) -> Json:
    return connection.call(task, lambda link: storage.creation_annotations(link, home.capabilities))


def _free_names(
    wanted: Sequence[tuple[str, Json]], there: Sequence[storage.Controller]
) -> Iterator[str]:
    """Yield names that no volume has or will have."""
    used = {disk.get("volume_name") for _, disk in wanted}
    used |= {volume.name for each in there for volume in each.volumes}
    return (name for at in itertools.count(1) if (name := f"volume{at}") not in used)


def _name_key(creation: Json) -> str:
    """Return the property for a volume's name; some controllers take only DisplayName."""
    said = {name: _is_creatable(creation, name) for name in ("Name", "DisplayName")}
    return "DisplayName" if said["DisplayName"] and not said["Name"] else "Name"


def _is_creatable(creation: Json, name: str) -> bool:
    words = ("RequiredOnCreate", "OptionalOnCreate", "SetOnlyOnCreate")
    return any(creation.get(f"{name}@Redfish.{word}") is True for word in words)


def _apply_time(times: Sequence[str] | None) -> str | None:
    """Return the apply time to request; None lets the BMC decide."""
    known = times or ()
    return next(
        (one for one in (volume_changes.IMMEDIATE, volume_changes.ON_RESET) if one in known), None
    )


def _machine_maker(link: connection.Link) -> str:
    return str(link.system().json.get("Manufacturer") or "")


def _logical_disk(
    work: volume_changes.Work,
    order: volume_changes.Order,
    wanted: Json,
    there: Sequence[storage.Controller],
) -> Json:
    """Return the entry of a volume in the node's raid_config, from its request and its result."""
    home = next((one for one in there if one.volumes_path == order.path), None)
    volume = volume_changes.find(work, order, home.volumes) if home else None
    if home is None or volume is None:
        raise errors.StepFailed(
            step="raid",
            reason=f"the BMC reported success of: {order.name}, but that volume does not exist. "
            "Check the BMC's log, and run the step again",
        )
    order.volume = volume.path
    asked = order.body.get("CapacityBytes", 0)
    if volume.size < asked * _ROUNDING:
        raise errors.StepFailed(
            step="raid",
            reason=f"volume {volume.name} has {volume.size // selection.GIB} GiB, "
            f"not {wanted['size_gb']}. Request less, or more disks",
        )
    disks = {storage.plain_path(drive["@odata.id"]): str(drive["Id"]) for drive in home.drives}
    drives = volume.drives or tuple(one["@odata.id"] for one in order.body["Links"]["Drives"])
    shown = {
        **wanted,
        "id": volume.ident,
        "controller": home.name,
        "size_gb": volume.size // selection.GIB,
        "volume_name": volume.name,
        "physical_disks": [disks.get(storage.plain_path(path), path) for path in drives],
    }
    if volume.hint is not None:
        shown["root_device_hint"] = dict(volume.hint)
    return shown


_ROUNDING = 0.99
"""Controllers round sizes down to multiples of their stripes."""
