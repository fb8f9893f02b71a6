"""Refusals of a BMC: errors in the form of DSP0266."""

from __future__ import annotations

from tests.emulators.bmc.server import Reply


class Refused(Exception):
    """The BMC says no; carries its answer."""

    def __init__(self, status: int, word: str, message: str) -> None:
        super().__init__(message)
        self.reply = refusal(status, word, message)


def refusal(status: int, word: str, message: str) -> Reply:
    """Return an error answer in the form of DSP0266; ``word`` is of the registry Base."""
    info = {
        "@odata.type": "#Message.v1_1_2.Message",
        "MessageId": f"Base.1.8.{word}",
        "Message": message,
        "Severity": "Critical",
        "Resolution": "None.",
    }
    code = {"code": "Base.1.8.GeneralError", "message": "A general error has occurred."}
    return Reply(status, {"error": {**code, "@Message.ExtendedInfo": [info]}})
