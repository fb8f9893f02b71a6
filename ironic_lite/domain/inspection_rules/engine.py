"""Evaluation of rules on the results of an inspection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain.inspection_rules import actions, conditions
from ironic_lite.domain.inspection_rules.subject import Subject

_MASKED = {"always": False, "never": True}  # whether all rules see secrets


def run(rules: Iterable[JsonView], subject: Subject, *, mask_secrets: str = "sensitive") -> None:
    """Apply rules in their order: all actions of each rule whose conditions all hold.

    Each rule sees the changes of the previous ones.

    :param rules: checked: uuid, conditions, actions, sensitive.
    :param mask_secrets: ``always``, ``never``, or in all rules that are not ``sensitive``.
    :raises errors.HardwareError: a rule makes the inspection fail, or cannot be run; the sentence
        names it.
    :raises errors.LockLost, errors.Stopping: the caller of the calls must end.
    """
    for rule in rules:
        secrets = _MASKED.get(mask_secrets, bool(rule["sensitive"]))
        view = subject.view(secrets=secrets)
        if all(_carry_out(conditions.holds, rule, one, view) for one in rule["conditions"] or ()):
            for action in rule["actions"]:
                _carry_out(actions.act, rule, action, subject, secrets=secrets)


def _carry_out(
    act: Callable[..., object],
    rule: JsonView,
    one: JsonView,
    *args: object,
    **more: object,
) -> Any:
    try:
        return act(one, *args, **more)
    except (errors.LockLost, errors.Stopping):
        raise  # not the rule's fault: the next owner of the node inspects it
    except errors.Error as why:
        said = f"Inspection rule {rule['uuid']}: {one['op']}: {why.message}"
        raise errors.HardwareError(said) from why
