"""The call of a conductor for each provision verb: the API makes it, and so do batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ironic_lite.core.context import Context
from ironic_lite.core.json_types import JsonView
from ironic_lite.rpc import interface

Send = Callable[[interface.Conductor, Context, str, str, JsonView], str | None]
"""Arguments: conductor, context, event of the verb, UUID of the node, body of the request."""


def _send_deploy(
    conductor: interface.Conductor, who: Context, event: str, node: str, body: JsonView
) -> str | None:
    return conductor.do_node_deploy(
        who,
        node_uuid=node,
        rebuild=event == "rebuild",
        configdrive=body.get("configdrive"),
        deploy_steps=body.get("deploy_steps"),
    )


def _send_clean(
    conductor: interface.Conductor, who: Context, _event: str, node: str, body: JsonView
) -> str | None:
    return conductor.do_node_clean(
        who,
        node_uuid=node,
        clean_steps=body["clean_steps"],
        disable_ramdisk=body.get("disable_ramdisk", False),
    )


def _send_service(
    conductor: interface.Conductor, who: Context, _event: str, node: str, body: JsonView
) -> str | None:
    return conductor.do_node_service(
        who,
        node_uuid=node,
        service_steps=body["service_steps"],
        disable_ramdisk=body.get("disable_ramdisk", False),
    )


def _send_rescue(
    conductor: interface.Conductor, who: Context, _event: str, node: str, body: JsonView
) -> str | None:
    return conductor.do_node_rescue(who, node_uuid=node, rescue_password=body["rescue_password"])


def _send_unrescue(
    conductor: interface.Conductor, who: Context, _event: str, node: str, _body: JsonView
) -> str | None:
    return conductor.do_node_unrescue(who, node_uuid=node)


def _tear_down(
    conductor: interface.Conductor, who: Context, _event: str, node: str, _body: JsonView
) -> str | None:
    return conductor.do_node_tear_down(who, node_uuid=node)


def _send_retry(
    conductor: interface.Conductor, who: Context, _event: str, node: str, body: JsonView
) -> str | None:
    return conductor.do_node_retry(who, node_uuid=node, retry=body.get("retry"))


def _send_inspect(
    conductor: interface.Conductor, who: Context, _event: str, node: str, _body: JsonView
) -> str | None:
    return conductor.inspect_hardware(who, node_uuid=node)


BY_EVENT: Mapping[str, Send] = {
    "deploy": _send_deploy,
    "rebuild": _send_deploy,
    "delete": _tear_down,
    "clean": _send_clean,
    "service": _send_service,
    "rescue": _send_rescue,
    "unrescue": _send_unrescue,
    "inspect": _send_inspect,
    "retry": _send_retry,
}
"""Events with an RPC method of their own."""


def send(
    conductor: interface.Conductor, who: Context, *, event: str, node_uuid: str, body: JsonView
) -> str | None:
    """Send a verb to the conductor; return the UUID of its run when it is accepted.

    :param event: of the verb's row in ``domain.verbs``.
    :param body: of the request, with the steps of a runbook in place of its name.
    :raises errors.Error: the conductor's refusal.
    """
    if event in BY_EVENT:
        return BY_EVENT[event](conductor, who, event, node_uuid, body)
    return conductor.do_provisioning_action(who, node_uuid=node_uuid, action=event)
