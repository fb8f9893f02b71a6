"""Faults of a BMC, and the words that last_error must then have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.emulators import bmc
from tests.support import bmc_tasks

Spoil = Callable[[bmc.Machine], None]

USERS = {"root": "s3cret-w0rd"}


def nothing_held(shown: dict[str, Any]) -> bool:
    """Tell that nobody works on a node and that nothing is promised for it any more."""
    return shown["reservation"] is None and shown["target_power_state"] is None


def says(shown: dict[str, Any], *words: str) -> bool:
    """Return whether last_error has all the words; fail if it has a password."""
    error = shown["last_error"] or ""
    assert USERS["root"] not in error
    missing = [word for word in words if not re.search(word, error)]
    assert missing == [], error
    return True


def reset_of(machine: bmc.Machine) -> str:
    """Return the title of the request that switches a machine."""
    return f"POST {machine.system}/Actions/ComputerSystem.Reset"


# -- for good -------------------------------------------------------------------------------------


def _stuck(machine: bmc.Machine) -> None:
    machine.habits.power_stuck = True


def _refuses(machine: bmc.Machine) -> None:
    machine.tricks[reset_of(machine)] = bmc.says(400, {"error": {"message": "The door is open."}})


def _breaks(machine: bmc.Machine) -> None:
    machine.tricks["*"] = bmc.says(500)


def falls_silent(machine: bmc.Machine, title: str = "*", trick: bmc.Trick = bmc.silent) -> None:
    """Let requests have no whole answer, for which nobody waits for long any more."""
    bmc_tasks.wait_for_answers(1)
    machine.tricks[title] = trick


def _hangs_up_on_changes(machine: bmc.Machine) -> None:
    machine.tricks["POST *"] = bmc.hangs_up


def _changes_its_password(machine: bmc.Machine) -> None:
    machine.users["root"] = "another"
    machine.forget_sessions()


BAD_POWER: dict[str, tuple[Spoil, tuple[str, ...]]] = {
    "never changes": (_stuck, ("not reached within 2 s", "last showed the state Off")),
    "is refused": (_refuses, ("refused On", "The door is open")),
    "breaks the BMC": (_breaks, ("has an internal error: HTTP 500",)),
    "silences the BMC": (falls_silent, (r"no complete answer within \d+ s",)),
    "gets no answer": (_hangs_up_on_changes, ("hung up without an answer",)),
    "is forbidden": (_changes_its_password, ("refused the credentials of user root",)),
}
"""What happens when a machine that is off is told to go on, and the words for it."""


def repair(machine: bmc.Machine) -> None:
    """Let a spoiled machine be good again."""
    machine.tricks.clear()
    bmc_tasks.wait_for_answers(60)
    machine.habits.power_stuck = False
    machine.users.update(USERS)


# -- for a while ----------------------------------------------------------------------------------


def _forgets_sessions(machine: bmc.Machine) -> None:
    machine.forget_sessions()


def _restarts(machine: bmc.Machine) -> None:
    machine.restart()


def _restarts_without_a_word(machine: bmc.Machine) -> None:
    machine.habits.restart_status = 0
    machine.restart()


def _is_in_post(machine: bmc.Machine) -> None:
    busy = {"MessageId": "iLO.2.14.UnableToModifyDuringSystemPOST", "Message": "In POST."}
    answer = {"error": {"@Message.ExtendedInfo": [busy]}}
    machine.tricks[reset_of(machine)] = bmc.says_first(2, bmc.says(400, answer))


PASSING: dict[str, Spoil] = {
    "sessions run out": _forgets_sessions,
    "the BMC restarts": _restarts,
    "the BMC restarts and breaks connections": _restarts_without_a_word,
    "the machine is in POST": _is_in_post,
}
"""What nobody should notice."""


def at_reset(machine: bmc.Machine, word: str, spoil: Spoil) -> None:
    """Spoil the machine just before it is told this reset type for the first time."""
    title = reset_of(machine)

    def play(handler: bmc.Handler) -> None:
        if handler.request_read.body["ResetType"] == word:
            del machine.tricks[title]
            spoil(machine)
            again = machine.server.trick(title)
            if again is not None:
                again(handler)
                return
        handler.truth()

    machine.tricks[title] = play
