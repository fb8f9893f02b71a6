"""Secure boot by Redfish: its state and its keys."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import connection, jobs, pending_settings, quirks, resources
from ironic_lite.drivers.redfish.bmc import library as sushy

KEYS_DEFAULT = "ResetAllKeysToDefault"
KEYS_DELETE = "DeleteAllKeys"


def get(task: base.Task) -> bool | None:
    """Return whether secure boot is on; None if the BMC does not report its state.

    :raises errors.UnsupportedDriverExtension: the machine has no SecureBoot resource.
    """
    document = _read_secure_boot(task, "get_secure_boot_state")
    state = None if document is None else document.get("SecureBootEnable")
    return state if isinstance(state, bool) else None


def switch(task: base.Task, state: bool) -> None:
    """Switch secure boot on or off, and wait until the BMC shows it.

    :raises errors.UnsupportedDriverExtension: the machine has no SecureBoot resource.
    :raises errors.HardwareError: the boot mode is BIOS, the BMC refused, or see `pending_settings`.
    """
    document = _read_secure_boot(task, "set_secure_boot_state")
    if document is None:
        raise errors.HardwareError(
            reason="The BMC needs a licence to show secure boot. Install the licence on the BMC."
        )
    if document.get("SecureBootEnable") is state:
        return
    mode = resources.text(resources.system(task), "Boot", "BootSourceOverrideMode")
    if state and mode == "Legacy":
        raise errors.HardwareError(
            reason="Secure boot needs the boot mode uefi; this machine has the boot mode bios. "
            "Set the boot mode first."
        )
    uris = jobs.change(task, document["@odata.id"], {"SecureBootEnable": state})
    what = f"secure boot {'on' if state else 'off'}"
    pending_settings.see_through(task, what, lambda task: get(task) is state, uris)


def reset_keys(task: base.Task, how: str) -> None:
    """Restore the vendor's secure boot keys, or delete all keys.

    :param how: ``KEYS_DEFAULT`` or ``KEYS_DELETE``.
    :raises errors.UnsupportedDriverExtension: the BMC does not offer that action.
    """
    document = _read_secure_boot(task, how) or {}
    action = resources.value(document, "Actions", "#SecureBoot.ResetKeys")
    target = resources.text(action, "target")
    offered = resources.value(action, "ResetKeysType@Redfish.AllowableValues")
    if target is None or (isinstance(offered, list) and how not in offered):
        raise resources.lacking(task, how, "its SecureBoot resource has no such action")
    place, body = target, {"ResetKeysType": how}
    uris = connection.call(
        task, lambda link: jobs.places(link.wire.post(place, data=body)), read=False
    )
    jobs.follow(task, uris, f"do {how}", jobs.SHORT_SECONDS, waits=True)


def _read_secure_boot(task: base.Task, method: str) -> Json | None:
    """Return the SecureBoot resource, None if reading it needs a licence.

    :raises errors.UnsupportedDriverExtension: the resource does not exist.
    """
    path = resources.link(resources.system(task), "SecureBoot")
    there, found = (
        connection.call(task, lambda link: _read_document(link, path)) if path else (False, None)
    )
    if not there:
        raise resources.lacking(task, method, "it has no SecureBoot resource")
    return None if found is None else {"@odata.id": path, **found}


def _read_document(link: connection.Link, path: str) -> tuple[bool, Json | None]:
    """Return whether the document exists, and its content; None if reading it needs a licence."""
    try:
        return True, link.wire.document(path)
    except sushy.exceptions.ResourceNotFoundError:
        return False, None
    except sushy.exceptions.AccessError as error:
        if quirks.said(error.body, quirks.UNLICENSED):
            quirks.UNLICENSED.log(f"BMC {link.node.address}")
            return True, None
        raise
