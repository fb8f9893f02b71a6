"""Secure boot by Redfish: whether the firmware checks signatures, and its keys."""

from __future__ import annotations

import sushy
import sushy.exceptions

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import connection, documents, faults, pending, quirks

KEYS_DEFAULT = "ResetAllKeysToDefault"
KEYS_DELETE = "DeleteAllKeys"


def get(task: base.Task) -> bool | None:
    """Tell whether it is on; None if the BMC shows the resource and not the state.

    :raises errors.UnsupportedDriverExtension: the machine has no SecureBoot resource.
    """
    document = _document(task, "get_secure_boot_state")
    state = None if document is None else document.get("SecureBootEnable")
    return state if isinstance(state, bool) else None


def switch(task: base.Task, state: bool) -> None:
    """Switch it on or off; returns when the BMC says that it is so.

    :raises errors.UnsupportedDriverExtension: the machine has no SecureBoot resource.
    :raises errors.HardwareError: it boots in BIOS mode; the BMC refused; or see `pending`.
    """
    document = _document(task, "set_secure_boot_state")
    if document is None:
        raise errors.HardwareError(
            reason="The BMC hides secure boot from us for want of a licence. Give it the licence."
        )
    if document.get("SecureBootEnable") is state:
        return
    mode = documents.text(documents.system(task), "Boot", "BootSourceOverrideMode")
    if state and mode == sushy.BootSourceOverrideMode.LEGACY.value:
        raise errors.HardwareError(
            reason="Secure boot needs the boot mode uefi; this machine boots in mode bios. "
            "Set the boot mode first."
        )
    documents.change(task, document["@odata.id"], {"SecureBootEnable": state})
    word = "on" if state else "off"
    pending.see_through(task, f"secure boot {word}", lambda task: get(task) is state)


def reset_keys(task: base.Task, how: str) -> None:
    """Bring the keys of secure boot back to the maker's, or delete them all.

    :param how: ``KEYS_DEFAULT`` or ``KEYS_DELETE``.
    :raises errors.UnsupportedDriverExtension: the BMC does not offer that.
    """
    document = _document(task, how) or {}
    action = documents.value(document, "Actions", "#SecureBoot.ResetKeys")
    target = documents.text(action, "target")
    offered = documents.value(action, "ResetKeysType@Redfish.AllowableValues")
    if target is None or (isinstance(offered, list) and how not in offered):
        raise documents.lacking(task, how, "its SecureBoot resource has no such action")
    place = target
    connection.call(
        task, lambda link: link.wire.post(place, data={"ResetKeysType": how}), read=False
    )


def _document(task: base.Task, method: str) -> documents.Json | None:
    """Return the SecureBoot resource, None if it takes a licence to see it.

    :raises errors.UnsupportedDriverExtension: there is none.
    """
    path = documents.link(documents.system(task), "SecureBoot")
    there, found = connection.call(task, lambda link: _read(link, path)) if path else (False, None)
    if not there:
        raise documents.lacking(task, method, "it has no SecureBoot resource")
    return None if found is None else {"@odata.id": path, **found}


def _read(link: connection.Link, path: str) -> tuple[bool, documents.Json | None]:
    """Tell whether the document is there, and return it; None if it takes a licence to see it."""
    try:
        return True, link.wire.document(path)
    except sushy.exceptions.ResourceNotFoundError:
        return False, None
    except sushy.exceptions.AccessError as error:
        if faults.says(error, quirks.UNLICENSED):
            return True, None
        raise
