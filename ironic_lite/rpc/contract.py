"""The contract between API and conductor: methods, arguments, versions.

Arguments and results are plain JSON. ``api``, and ``conductor`` for batches, call through
``rpc.client``, which this Protocol types; ``conductor.service`` implements it. To add a method, or
an argument with a default, raise the minor version and add a line to ``HISTORY`` and the names to
``SINCE``. Releases keep theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.options import Configuration

WRONG_TOKEN = "is not this node's token"
"""Reason of a conductor that refuses the ``agent_token`` of a heartbeat. The API refuses a missing
node with the same words, so that strangers cannot find out which nodes exist."""
TOKEN_NOTE = "agent_secret_token"
"""Key of the agent's token in a node's ``driver_internal_info``."""

HISTORY: tuple[tuple[str, str], ...] = (
    # version, its additions
    ("1.0", "The first contract: everything below."),
)
SINCE: Mapping[str, str] = {
    # method, or method.argument: its first version; all others have existed since 1.0
}
VERSION = HISTORY[-1][0]
TOPIC = "ironic_lite.conductor"
EXCHANGE = "ironic_lite"

CASTS = frozenset(
    {"continue_node_clean", "continue_node_deploy", "continue_node_service", "stop_run"}
)


class Conductor(Protocol):
    """The methods of a conductor for API processes.

    A verb locks the node, checks it, changes its state and answers at once; a worker does the slow
    part. Errors of ``ironic_lite.errors`` are raised again at the caller. Every
    method may raise ``errors.NodeNotFound``, ``errors.NodeLocked`` and ``errors.NoFreeWorker``.
    """

    # -- nodes -------------------------------------------------------------------------------

    def check_node(
        self, context: Context, *, driver: str, interfaces: dict[str, str | None], driver_info: Json
    ) -> dict[str, str]:
        """Return every interface name of a node with this driver, defaults filled in.

        ``interfaces`` maps ``power`` ... to the wanted name or None. The method uses neither the
        database nor the machine.

        :raises errors.InterfaceNotFound: not enabled, or not of this hardware type.
        :raises errors.InvalidParameter: ``driver_info`` is malformed.
        """

    def destroy_node(self, context: Context, *, node_uuid: str) -> None:
        """Delete a node that is unlocked and in a state that allows deletion."""

    def validate_driver_interfaces(self, context: Context, *, node_uuid: str) -> Json:
        """Return ``{kind: {"result": bool, "reason": str (only when False)}}``."""

    def get_driver_properties(self, context: Context, *, driver: str) -> dict[str, str]:
        """Return ``{driver_info key: description}`` of a driver's default interfaces."""

    def get_driver_property_details(self, context: Context, *, driver: str) -> Json:
        """Return ``{driver_info key: facts}`` of a driver's default interfaces, for forms.

        The facts are ``group``, ``order``, ``required``, ``secret``, ``default``, ``example`` and
        ``description``.
        """

    def get_raid_logical_disk_properties(self, context: Context, *, driver: str) -> dict[str, str]:
        """Return ``{key of a logical disk: description}`` of a driver's default RAID.

        :raises errors.UnsupportedDriverExtension: the hardware type has no default RAID interface.
        """

    def set_target_raid_config(
        self, context: Context, *, node_uuid: str, target_raid_config: Json
    ) -> None:
        """Set a node's wanted volumes, checked by its RAID interface; {} for none.

        :raises errors.InvalidParameter: names the path in ``target_raid_config``.
        :raises errors.UnsupportedDriverExtension: the node has no RAID.
        """

    # -- provision verbs ---------------------------------------------------------------------

    def start_verb(self, context: Context, *, node_uuid: str, event: str, body: Json) -> str | None:
        """Start a provision verb; return the UUID of its run, None if it opens none.

        :param event: of the verb's row in ``domain.verbs``.
        :param body: of the request, checked by the API, with the steps of a runbook in place of its
            name: ``clean_steps``, ``configdrive``, ``retry`` and so on.
        :raises errors.InvalidState, errors.NodeHeld, errors.NodeInMaintenance: the node's row
            forbids the verb.
        :raises errors.NothingToRetry, errors.StepInDoubt: refusals of a retry.
        """

    def plan_provision(self, context: Context, *, node_uuid: str, target: str, body: Json) -> Json:
        """Return what a verb would do to a node now; nothing is changed, locked or asked.

        :param body: arguments of the verb: ``clean_steps``, ``deploy_steps``, ``service_steps``,
            ``disable_ramdisk``, ``rescue_password``.
        :returns: ``faults``, each with ``path``, ``code`` and ``text``; ``steps``, ``ramdisk``,
            ``restarts``, ``destroys``, ``complete`` and ``incomplete``.
        """

    def continue_node_clean(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Continue after a waiting clean step (cast).

        ``step_id`` is the ``Task.step_id`` of the step at its start. A late or repeated cast, which
        names another step than the waiting one, is ignored; without an id any step continues.
        """

    def continue_node_deploy(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Continue after a waiting deploy step (cast); see ``continue_node_clean``."""

    def continue_node_service(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Continue after a waiting service step (cast); see ``continue_node_clean``."""

    def stop_run(self, context: Context, *, node_uuid: str, run_uuid: str) -> None:
        """Abort a waiting run now, if its stop demands it and its step may be interrupted (cast).

        The stop stands in the node's row. A lost cast only delays the abort to the end of the wait.
        """

    def get_clean_steps(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return all clean steps as by ``steps.as_offer``, highest priority first.

        The call neither takes nor waits for the node's lock (S1.21 to S1.28, C35).

        :raises errors.StepsUnavailable: unknown until an agent has run; fact ``seconds``.
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
        """Return the names that ``set_boot_device`` accepts."""

    def change_node_boot_mode(self, context: Context, *, node_uuid: str, mode: str) -> None:
        """Start a change of the boot mode, ``bios`` or ``uefi``."""

    def change_node_secure_boot(self, context: Context, *, node_uuid: str, state: bool) -> None:
        """Start switching secure boot on (True) or off."""

    def inject_nmi(self, context: Context, *, node_uuid: str) -> None:
        """Send the machine a non-maskable interrupt."""

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
        """Set the state of an indicator."""

    def get_virtual_media(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the virtual drives, in the form of ``drivers.base.Management``."""

    def attach_virtual_media(
        self,
        context: Context,
        *,
        node_uuid: str,
        device_type: str,
        image_url: str,
        image_download_source: str = "http",
    ) -> None:
        """Start inserting an image into a virtual drive.

        :param image_download_source: one of ``vocabulary.DOWNLOAD_SOURCES``.
        """

    def detach_virtual_media(
        self, context: Context, *, node_uuid: str, device_types: list[str] | None = None
    ) -> None:
        """Start ejecting virtual drives, None for all."""

    def set_console_mode(self, context: Context, *, node_uuid: str, enabled: bool) -> None:
        """Begin to start or stop a node's console."""

    def get_console_information(self, context: Context, *, node_uuid: str) -> Json:
        """Return the access to a started console, as in ``drivers.base.Console``."""

    # -- networks ----------------------------------------------------------------------------

    def vif_list(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the attached virtual interfaces, each ``{"id": str}`` and more facts."""

    def vif_attach(self, context: Context, *, node_uuid: str, vif_info: Json) -> None:
        """Attach a virtual interface.

        :param vif_info: ``id``, and ``port_uuid`` or ``portgroup_uuid`` if given.
        :raises errors.Conflict: it is already attached.
        :raises errors.InvalidRequest: no port or port group is free.
        """

    def vif_detach(self, context: Context, *, node_uuid: str, vif_id: str) -> None:
        """Detach a virtual interface.

        :raises errors.InvalidRequest: it is not attached.
        """

    # -- vendor passthru ---------------------------------------------------------------------

    def get_node_vendor_passthru_methods(self, context: Context, *, node_uuid: str) -> Json:
        """Return ``{name: facts}``.

        The facts are http_methods, async, description, attach, require_exclusive_lock.
        """

    def vendor_passthru(
        self,
        context: Context,
        *,
        node_uuid: str,
        vendor_method: str,
        http_method: str,
        info: Json,
    ) -> Json:
        """Call a vendor method.

        :return: ``{"return": JSON, "async": bool, "attach": bool}``.
        :raises errors.InvalidParameter: no such method, or bad arguments.
        """

    def get_driver_vendor_passthru_methods(self, context: Context, *, driver: str) -> Json:
        """Return the same as for a node, for a hardware type's default vendor interface."""

    def driver_vendor_passthru(
        self, context: Context, *, driver: str, vendor_method: str, http_method: str, info: Json
    ) -> Json:
        """Call a vendor method that concerns no single node; see ``vendor_passthru``."""

    # -- the doctor --------------------------------------------------------------------------

    def examine(self, context: Context) -> list[Json]:
        """Return the findings of this conductor's checks, within 20 seconds.

        A finding is ``{"name", "where", "status", "ms", "text", "do"}``, see
        ``domain.examination``.
        """

    def examine_node(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the findings about a node and the way to its BMC, within 20 seconds.

        The call only reads, and takes no lock.
        """

    # -- allocations -------------------------------------------------------------------------

    def create_allocation(self, context: Context, *, allocation: Json) -> None:
        """Add an allocation and start the search for its node; any conductor can do this.

        :param allocation: its columns, ``created_at`` as ISO 8601 without a zone.
        :raises errors.Duplicate: its UUID or name is in use.
        """

    # -- the agent ---------------------------------------------------------------------------

    def get_node_with_token(self, context: Context, *, node_uuid: str) -> Json:
        """Return ``{"agent_token": str, "fresh": bool}``.

        The first call of a ramdisk's boot creates the token.
        """

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
        """Process an agent's heartbeat."""

    def continue_inspection(
        self,
        context: Context,
        *,
        node_uuid: str,
        inventory: Json,
        plugin_data: Json,
        with_token: bool = False,
    ) -> Json | None:
        """Store a ramdisk's inspection results; a worker continues the inspection.

        :param inventory: checked by `inspection.check`.
        :param plugin_data: all other data of the ramdisk.
        :param with_token: return the result of ``get_node_with_token``; otherwise None.
        :raises errors.NodeNotFound: the node does not wait for inspection data.
        """


# Calls allowed to conductors of an older release, during an upgrade.
#
# Conductors accept all calls of older APIs. An API of a new release sends only calls that the
# release in [DEFAULT]pin_release_version supports; clients that need others get 503.

LOG = logging.getLogger(__name__)

RELEASES: Mapping[str, str] = {
    # release: the newest contract version of its conductors
    "0.1": "1.0",
}
_OPTION = "pin_release_version"
_OPTIONAL: frozenset[str] = frozenset()
"""Arguments to leave out for a conductor that does not support them."""


def release_of(version: str) -> str:
    """Return the release that a version of the package belongs to: "0.1" of "0.1.3"."""
    return ".".join(version.split(".")[:2])


def pinned_release(conf: Configuration) -> str | None:
    """Return the oldest release of conductors, None if all are of this release.

    A release name of OpenStack, from a file written for Ironic, pins nothing, because it does not
    look like a release of this service.

    :raises config.ConfigError: it looks like a release of this service, but is not supported.
    """
    name: str | None = conf[_OPTION]
    if not name or name in RELEASES:
        return name or None
    if name[0].isdigit():
        known = ", ".join(RELEASES)
        raise config.ConfigError(
            reason=f"[DEFAULT]{_OPTION}: {name} is not a release that this one supports beside "
            f"itself; supported: {known}"
        )
    LOG.warning(
        "[DEFAULT]%s = %s is not a release of this service; nothing is pinned", _OPTION, name
    )
    return None


def arguments_for(method: str, args: JsonView, pin: str | None) -> Json:
    """Return the arguments of a call that conductors of a release accept.

    :param pin: the release, None for this one.
    :raises errors.Pinned: they lack the method, or an argument that cannot be left out.
    """
    if pin is None:
        return dict(args)
    cap = _version_number(RELEASES[pin])
    _refuse_newer(method, cap, pin)
    kept = {}
    for name, value in args.items():
        full = f"{method}.{name}"
        if full in _OPTIONAL and _version_number(SINCE[full]) > cap:
            continue
        _refuse_newer(full, cap, pin)
        kept[name] = value
    return kept


def _refuse_newer(name: str, cap: tuple[int, ...], pin: str) -> None:
    if _version_number(SINCE.get(name, "1.0")) > cap:
        raise errors.Pinned(release=pin, what=name)


def _version_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
