"""The contract between API and conductor: every method, its arguments, since which RPC version.

Arguments and results are plain JSON. ``api`` calls through ``rpc.client``, which is typed by this
Protocol; ``conductor.service`` implements it. Add a method or an argument with a default, raise
the minor version and write the line in ``HISTORY`` and what is new in ``SINCE``; never remove.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ironic_lite.context import Context

WRONG_TOKEN = "is not this node's token"
"""Why a conductor refuses the ``agent_token`` of a heartbeat. The API refuses with the same words
where there is no node, so that strangers do not learn which there are."""

HISTORY: tuple[tuple[str, str], ...] = (
    # version, what it brought
    ("1.0", "The first contract: everything below."),
    ("1.1", "continue_node_*: step_id, which names the step that has ended."),
    ("1.2", "Boot mode, secure boot, NMI, indicators, virtual media, vendor passthru."),
    ("1.3", "set_target_raid_config, get_raid_logical_disk_properties."),
    ("1.4", "continue_inspection."),
    ("1.5", "create_allocation."),
    ("1.6", "vif_list, vif_attach, vif_detach."),
    ("1.7", "set_console_mode, get_console_information."),
)
SINCE: Mapping[str, str] = {
    # method, or method.argument: the version that brought it; the others came with 1.0
    "continue_node_clean.step_id": "1.1",
    "continue_node_deploy.step_id": "1.1",
    "continue_node_service.step_id": "1.1",
    "change_node_boot_mode": "1.2",
    "change_node_secure_boot": "1.2",
    "inject_nmi": "1.2",
    "get_supported_indicators": "1.2",
    "get_indicator_state": "1.2",
    "set_indicator_state": "1.2",
    "get_virtual_media": "1.2",
    "attach_virtual_media": "1.2",
    "detach_virtual_media": "1.2",
    "get_node_vendor_passthru_methods": "1.2",
    "vendor_passthru": "1.2",
    "get_driver_vendor_passthru_methods": "1.2",
    "driver_vendor_passthru": "1.2",
    "set_target_raid_config": "1.3",
    "get_raid_logical_disk_properties": "1.3",
    "continue_inspection": "1.4",
    "create_allocation": "1.5",
    "vif_list": "1.6",
    "vif_attach": "1.6",
    "vif_detach": "1.6",
    "set_console_mode": "1.7",
    "get_console_information": "1.7",
}
VERSION = HISTORY[-1][0]
TOPIC = "ironic_lite.conductor"
EXCHANGE = "ironic_lite"

CASTS = frozenset({"continue_node_clean", "continue_node_deploy", "continue_node_service"})

Json = dict[str, Any]


class Conductor(Protocol):
    """What a conductor does for an API process.

    Every ``do_`` method locks the node, checks, moves its state and answers at once; the slow part
    goes to a worker. Errors of ``ironic_lite.errors`` come back as themselves. All raise
    ``errors.NodeNotFound``, ``errors.NodeLocked``, ``errors.NoFreeWorker`` as it happens.
    """

    # -- nodes -------------------------------------------------------------------------------

    def check_node(
        self, context: Context, *, driver: str, interfaces: dict[str, str | None], driver_info: Json
    ) -> dict[str, str]:
        """Return every interface name of a node with this driver, defaults filled in.

        ``interfaces`` maps ``power`` ... to the wanted name or None. Touches neither database nor
        machine.

        :raises errors.InterfaceNotFound: not enabled, or not of this hardware type.
        :raises errors.InvalidParameter: nonsense in ``driver_info``.
        """

    def destroy_node(self, context: Context, *, node_uuid: str) -> None:
        """Delete a node that is not locked and whose state allows it."""

    def validate_driver_interfaces(self, context: Context, *, node_uuid: str) -> Json:
        """Return ``{kind: {"result": bool, "reason": str (only when False)}}``."""

    def get_driver_properties(self, context: Context, *, driver: str) -> dict[str, str]:
        """Return ``{driver_info key: description}`` of a hardware type's default interfaces."""

    def get_raid_logical_disk_properties(self, context: Context, *, driver: str) -> dict[str, str]:
        """Return ``{key of a logical disk: description}`` of a hardware type's default RAID.

        :raises errors.UnsupportedDriverExtension: no RAID interface is its default.
        """

    def set_target_raid_config(
        self, context: Context, *, node_uuid: str, target_raid_config: Json
    ) -> None:
        """Set which volumes a node shall have, once its raid interface has agreed; {} for none.

        :raises errors.InvalidParameter: naming the path in ``target_raid_config``.
        :raises errors.UnsupportedDriverExtension: the node has no RAID.
        """

    # -- provision verbs ---------------------------------------------------------------------

    def do_provisioning_action(self, context: Context, *, node_uuid: str, action: str) -> None:
        """Carry out manage, provide, available, adopt, abort, unhold."""

    def do_node_clean(
        self,
        context: Context,
        *,
        node_uuid: str,
        clean_steps: list[Json],
        disable_ramdisk: bool = False,
    ) -> None:
        """Start a manual clean (S1.34): a blocking call."""

    def do_node_deploy(
        self,
        context: Context,
        *,
        node_uuid: str,
        rebuild: bool = False,
        configdrive: Any = None,
        deploy_steps: list[Json] | None = None,
    ) -> None:
        """Start a deployment or a rebuild."""

    def do_node_tear_down(self, context: Context, *, node_uuid: str) -> None:
        """Start deleting the instance, which ends in cleaning (S2.30)."""

    def do_node_service(
        self,
        context: Context,
        *,
        node_uuid: str,
        service_steps: list[Json],
        disable_ramdisk: bool = False,
    ) -> None:
        """Start service steps on an active node."""

    def do_node_rescue(self, context: Context, *, node_uuid: str, rescue_password: str) -> None:
        """Start a rescue."""

    def do_node_unrescue(self, context: Context, *, node_uuid: str) -> None:
        """Bring a rescued node back to its instance."""

    def inspect_hardware(self, context: Context, *, node_uuid: str) -> None:
        """Start an inspection."""

    def continue_node_clean(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Go on after a waiting clean step (cast).

        ``step_id`` is what ``Task.step_id`` was when the step began. A cast for another step than
        the one that waits, which has come late or twice, is ignored; without it any is taken.
        """

    def continue_node_deploy(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Go on after a waiting deploy step (cast); see ``continue_node_clean``."""

    def continue_node_service(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Go on after a waiting service step (cast); see ``continue_node_clean``."""

    def get_clean_steps(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return all clean steps as ``steps.as_offer``, highest priority first (S1.21 to S1.28).

        Neither takes nor waits for the node's lock (C35).

        :raises errors.StepsUnavailable: not known before an agent has run; fact ``seconds``.
        """

    # -- power and management ----------------------------------------------------------------

    def change_node_power_state(
        self, context: Context, *, node_uuid: str, target: str, timeout: int | None = None
    ) -> None:
        """Start a power change; ``timeout`` in seconds."""

    def set_boot_device(
        self, context: Context, *, node_uuid: str, device: str, persistent: bool = False
    ) -> None:
        """Set the boot device."""

    def get_boot_device(self, context: Context, *, node_uuid: str) -> Json:
        """Return ``{"boot_device": str | None, "persistent": bool | None}``."""

    def get_supported_boot_devices(self, context: Context, *, node_uuid: str) -> list[str]:
        """Return the names ``set_boot_device`` takes."""

    def change_node_boot_mode(self, context: Context, *, node_uuid: str, mode: str) -> None:
        """Start a change of the boot mode, ``bios`` or ``uefi``."""

    def change_node_secure_boot(self, context: Context, *, node_uuid: str, state: bool) -> None:
        """Start switching secure boot on (True) or off."""

    def inject_nmi(self, context: Context, *, node_uuid: str) -> None:
        """Give the machine a non-maskable interrupt."""

    def get_supported_indicators(
        self, context: Context, *, node_uuid: str, component: str | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return ``{component: {indicator: {"readonly": bool, "states": [str]}}}``."""

    def get_indicator_state(
        self, context: Context, *, node_uuid: str, component: str, indicator: str
    ) -> str:
        """Return ``on``, ``off``, ``blinking`` or ``unknown``."""

    def set_indicator_state(
        self, context: Context, *, node_uuid: str, component: str, indicator: str, state: str
    ) -> None:
        """Switch a lamp."""

    def get_virtual_media(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the virtual drives, as ``drivers.base.Management`` says."""

    def attach_virtual_media(
        self, context: Context, *, node_uuid: str, device_type: str, image_url: str
    ) -> None:
        """Start putting an image into a virtual drive."""

    def detach_virtual_media(
        self, context: Context, *, node_uuid: str, device_types: list[str] | None = None
    ) -> None:
        """Start emptying virtual drives, None for all."""

    def set_console_mode(self, context: Context, *, node_uuid: str, enabled: bool) -> None:
        """Start starting or stopping a node's console."""

    def get_console_information(self, context: Context, *, node_uuid: str) -> Json:
        """Return how a started console is reached, as ``drivers.base.Console`` says."""

    # -- networks ----------------------------------------------------------------------------

    def vif_list(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the attached virtual interfaces, each ``{"id": str}`` and what else is known."""

    def vif_attach(self, context: Context, *, node_uuid: str, vif_info: Json) -> None:
        """Attach a virtual interface: ``id``, and ``port_uuid`` or ``portgroup_uuid`` if given.

        :raises errors.Conflict: it is attached already.
        :raises errors.InvalidRequest: nothing is free.
        """

    def vif_detach(self, context: Context, *, node_uuid: str, vif_id: str) -> None:
        """Detach a virtual interface.

        :raises errors.InvalidRequest: it is not attached.
        """

    # -- vendor passthru ---------------------------------------------------------------------

    def get_node_vendor_passthru_methods(self, context: Context, *, node_uuid: str) -> Json:
        """Return ``{name: facts}``: http_methods, async, description, attach,
        require_exclusive_lock."""

    def vendor_passthru(
        self,
        context: Context,
        *,
        node_uuid: str,
        vendor_method: str,
        http_method: str,
        info: Json,
    ) -> Json:
        """Call a vendor's method; return ``{"return": JSON, "async": bool, "attach": bool}``.

        :raises errors.InvalidParameter: no such method, or bad arguments.
        """

    def get_driver_vendor_passthru_methods(self, context: Context, *, driver: str) -> Json:
        """Do the same as for a node for a hardware type's default vendor interface."""

    def driver_vendor_passthru(
        self, context: Context, *, driver: str, vendor_method: str, http_method: str, info: Json
    ) -> Json:
        """Call a vendor's method that is about no single node; see ``vendor_passthru``."""

    # -- allocations -------------------------------------------------------------------------

    def create_allocation(self, context: Context, *, allocation: Json) -> None:
        """Add an allocation and begin to look for its node; any conductor can.

        :param allocation: its columns, ``created_at`` as ISO 8601 without a zone.
        :raises errors.Duplicate: its uuid or name is taken.
        """

    # -- the agent ---------------------------------------------------------------------------

    def get_node_with_token(self, context: Context, *, node_uuid: str) -> Json:
        """Return ``{"agent_token": str, "fresh": bool}``, made on the first call of a ramdisk's
        boot."""

    def heartbeat(
        self,
        context: Context,
        *,
        node_uuid: str,
        callback_url: str,
        agent_version: str | None,
        agent_token: str,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Take in an agent's heartbeat."""

    def continue_inspection(
        self,
        context: Context,
        *,
        node_uuid: str,
        inventory: Json,
        plugin_data: Json,
        with_token: bool = False,
    ) -> Json | None:
        """Take in what a ramdisk has found; a worker makes of it what follows.

        :param inventory: checked by `inspection.check`.
        :param plugin_data: what else came with it.
        :param with_token: return what ``get_node_with_token`` returns; else the answer is None.
        :raises errors.NodeNotFound: the node does not wait for this.
        """
