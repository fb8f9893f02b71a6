"""A bare BMC of our own, for tricks: what it has can be changed by plain attributes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from tests.emulators.bmc import machine as machines
from tests.emulators.bmc import shapes
from tests.emulators.bmc.server import (
    Handler,
    Trick,
    babbles,
    drips,
    drips_body,
    ends_early,
    hangs_up,
    says,
    says_first,
    silent,
    thinks,
)

__all__ = [
    "MANAGER",
    "RESET",
    "ROOT",
    "SESSIONS",
    "SYSTEM",
    "Handler",
    "Liar",
    "Trick",
    "babbles",
    "drips",
    "drips_body",
    "ends_early",
    "hangs_up",
    "says",
    "says_first",
    "silent",
    "thinks",
]

ROOT = "/redfish/v1/"
SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
MANAGER = "/redfish/v1/Managers/1"
SESSIONS = "/redfish/v1/SessionService/Sessions"


class Liar(machines.Machine):
    """A machine with few resets and boot devices, whose BMC is back at once after a restart."""

    def __init__(self, *, tls: tuple[str, str] | None = None) -> None:
        super().__init__(tls=tls)
        self.resets = ["On", "ForceOff", "ForceRestart", "GracefulShutdown"]
        self.boot["BootSourceOverrideTarget@Redfish.AllowableValues"] = ["None", "Pxe", "Hdd"]
        self.habits.restart_requests = 0

    def __enter__(self) -> Liar:
        super().__enter__()
        return self

    @property
    def address(self) -> str:
        return self.url

    @property
    def power(self) -> Any:
        """PowerState, as it is; a test may say anything."""
        return self._system["PowerState"]

    @power.setter
    def power(self, word: Any) -> None:
        self._system["PowerState"] = word

    @property
    def stuck(self) -> bool:
        return self.habits.power_stuck

    @stuck.setter
    def stuck(self, wanted: bool) -> None:
        self.habits.power_stuck = wanted

    @property
    def resets(self) -> list[str]:
        """The reset types it knows."""
        known: list[str] = self._reset["ResetType@Redfish.AllowableValues"]
        return known

    @resets.setter
    def resets(self, words: list[str]) -> None:
        self._reset["ResetType@Redfish.AllowableValues"] = words

    @property
    def boot(self) -> dict[str, Any]:
        boot: dict[str, Any] = self._system["Boot"]
        return boot

    @property
    def manufacturer(self) -> Any:
        return self._system["Manufacturer"]

    @manufacturer.setter
    def manufacturer(self, name: Any) -> None:
        self._system["Manufacturer"] = name

    @property
    def members(self) -> list[str]:
        """The systems it lists."""
        return [entry["@odata.id"] for entry in self.tree[f"{ROOT}Systems"]["Members"]]

    @members.setter
    def members(self, paths: list[str]) -> None:
        self.tree[f"{ROOT}Systems"]["Members"] = [shapes.link(path) for path in paths]

    @property
    def tokens(self) -> AbstractSet[str]:
        """The sessions that live."""
        return self.sessions.keys()

    @property
    def most_at_once(self) -> int:
        return self.server.most_at_once

    def without_sessions(self) -> None:
        """Have no session service."""
        root = self.tree[shapes.ROOT]
        del root["SessionService"], root["Links"]
        del self.tree[SESSIONS]

    @property
    def _system(self) -> dict[str, Any]:
        return self.tree[SYSTEM]

    @property
    def _reset(self) -> dict[str, Any]:
        action: dict[str, Any] = self._system["Actions"]["#ComputerSystem.Reset"]
        return action
