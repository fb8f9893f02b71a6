"""The inputs of a list of steps: what its steps were made from, as a digest.

A retry keeps steps only if the inputs are the same. Otherwise a kept step might have written
another image, or erased another machine. Passwords are no inputs, because a wrong password is a
common cause of a failure.
"""

from __future__ import annotations

from ironic_lite.core.json_types import Json
from ironic_lite.domain import fields, retries
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import Node

_PLACES = ("_address", "_system_id")
"""Ends of the keys of ``driver_info`` that name the machine."""


def digest(node: Node, kind: StepKind) -> str:
    """Return the digest of a node's inputs for a list of this kind."""
    inputs: Json = {
        "driver": node.driver,
        "interfaces": [getattr(node, f"{one}_interface") for one in fields.INTERFACE_KINDS],
        "machine": {
            key: node.driver_info[key] for key in node.driver_info if key.endswith(_PLACES)
        },
    }
    if kind is StepKind.DEPLOY:
        inputs["instance_info"] = node.instance_info
    return retries.digest(inputs)
