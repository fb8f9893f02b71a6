"""Every error this service raises on purpose: a status, a sentence, and the facts that fill it.

The branch tells a caller what to do, so branches are few::

    Error                          500  a fault of ours
    +- InvalidRequest              400  the operator's fault: mend the request
    |  +- InvalidParameter              a value (of the body, of driver_info) is wrong
    |  +- MissingParameter              a value is not there
    |  +- InvalidState                  this verb is not possible in this state
    |  +- NodeInMaintenance             end the maintenance first
    |  +- InterfaceNotFound             an interface name nobody enabled
    |  +- IncompatibleInterface         an interface that is not for this hardware type
    |  +- NoValidDefaultForInterface    name one: none of the enabled can be taken unasked
    |  +- UnsupportedDriverExtension    the driver cannot do that at all
    |  +- NoValidHost                   no living conductor drives this hardware type
    +- Unauthorized                401
    +- Forbidden                   403  closed endpoint
    |  +- NodeProtected                 end the protection first
    +- NotFound                    404
    |  +- NodeNotFound, PortNotFound, ChassisNotFound, DriverNotFound, ConductorNotFound
    |  +- DeployTemplateNotFound
    +- NotAcceptable               406  newer than the version asked for
    +- Conflict                    409  retry when the other thing is over
    |  +- NodeLocked                    somebody works on the node
    |  +- LockLost                      our lease is gone: stop at once
    |  +- Duplicate                     a unique value is taken
    |  +- NodeRetired                   take it back into service first
    +- TooLarge                    413
    +- Unavailable                 503  retry later
    |  +- NoFreeWorker
    |  +- NoConductor
    |  +- TooManyActions
    |  +- Stopping                      not for callers: a worker leaves its node to the next owner
    +- HardwareError               500  the machine or its BMC said no, or nothing
    |  +- BmcUnreachable                retryable
    |  +- BmcAccessDenied               wrong credentials
    |  +- BmcBadAnswer                  it answered, and not what Redfish or we can use
    |  +- PowerFailure
    |  +- StepFailed                    the parent of CleanStepFailed and DeployStepFailed
    |  +- AgentChanged                  a driver found another agent; it is asked anew
    |  +- TimedOut
    +- UnknownMethod               500  the conductor is older than the API
    +- LibraryMissing              500  install it on the conductor's machine
    +- Aborted                     500  by request; only ever the end of a run
    +- Interrupted                 500  by the death of a conductor; only ever the end of a run
    +- StepsUnavailable            202  the step list is not known yet (S1.26)

``retryable`` is a fact of the class. Errors cross RPC by class name and facts, see ``as_data`` and
``from_data``.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar

from ironic_lite import texts


class Error(Exception):
    """Root of all errors of ours.

    Give the facts as keywords; the sentence is ``text`` with the facts filled in. A raiser who
    needs another sentence passes ``message``. Both may quote a machine, so both are made storable.
    """

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    text: ClassVar[str] = "Something went wrong in this service."
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, **facts: Any) -> None:
        self.facts = texts.cleaned(facts)
        said = message if message is not None else self.text.format_map(_Facts(self.facts))
        self.message = texts.clean(said)
        super().__init__(self.message)

    def __str__(self) -> str:
        # Flows add to the message of an error on its way; what is shown must say the same.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return from_data, (self.as_data(),)

    @property
    def code(self) -> str:
        """The class name: the stable machine-readable name of this error."""
        return type(self).__name__

    def as_data(self) -> dict[str, Any]:
        """Return what a run record or an RPC reply keeps: code, text, status, retryable, facts."""
        return {
            "code": self.code,
            "text": self.message,
            "status": int(self.status),
            "retryable": self.retryable,
            "facts": self.facts,
        }


class _Facts(dict[str, Any]):
    """A missing fact shows its own name instead of hiding the real error behind a KeyError."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"


# -- 400: the request is wrong ---------------------------------------------------------------


class InvalidRequest(Error):
    status = HTTPStatus.BAD_REQUEST
    text = "The request is not valid."


class InvalidParameter(InvalidRequest):
    text = "{path}: {reason}"


class MissingParameter(InvalidRequest):
    text = "Missing mandatory parameter: {path}"


class InvalidState(InvalidRequest):
    text = (
        'The requested action "{verb}" can not be performed on node "{node}" '
        'while it is in state "{state}".'
    )


class NodeInMaintenance(InvalidRequest):
    text = (
        "The {verb} operation can't be performed on node {node} because it's in maintenance mode. "
        "End the maintenance with DELETE /v1/nodes/{node}/maintenance first."
    )


class InterfaceNotFound(InvalidRequest):
    text = (
        "Could not find the following interface in the '{kind}' interfaces of hardware type "
        "{driver}: {name}. Valid interfaces are {valid}."
    )


class IncompatibleInterface(InvalidRequest):
    text = (
        "Hardware type {driver} does not work with the {kind} interface {name}. "
        "Valid interfaces are {valid}."
    )


class NoValidDefaultForInterface(InvalidRequest):
    text = (
        "Hardware type {driver} has no default {kind} interface here. Name one with "
        "{kind}_interface; valid interfaces are {valid}."
    )


class UnsupportedDriverExtension(InvalidRequest):
    text = "Driver {driver} does not support {extension} (disabled or not implemented)."


class NoValidHost(InvalidRequest):
    text = (
        'No conductor of group "{group}" which supports driver {driver} could be found. '
        "GET /v1/drivers and /v1/conductors tell which there are."
    )


# -- 401, 403, 404, 406 ----------------------------------------------------------------------


class Unauthorized(Error):
    status = HTTPStatus.UNAUTHORIZED
    text = "Authentication is required."


class Forbidden(Error):
    status = HTTPStatus.FORBIDDEN
    text = "Access to {what} is refused."


class NodeProtected(Forbidden):
    text = (
        "Node {node} is protected and cannot be undeployed, rebuilt or deleted. "
        "Set protected to false first."
    )


class NotFound(Error):
    status = HTTPStatus.NOT_FOUND
    text = "{what} {ident} could not be found."


class NodeNotFound(NotFound):
    text = "Node {node} could not be found."


class PortNotFound(NotFound):
    text = "Port {port} could not be found."


class ChassisNotFound(NotFound):
    text = "Chassis {chassis} could not be found."


class DeployTemplateNotFound(NotFound):
    text = "Deploy template {template} could not be found."


class DriverNotFound(NotFound):
    text = "Could not find the following driver(s) or hardware type(s): {driver}."


class ConductorNotFound(NotFound):
    text = "Conductor {conductor} could not be found."


class NotAcceptable(Error):
    status = HTTPStatus.NOT_ACCEPTABLE
    text = "Request not acceptable. {what} needs API version 1.{since} or newer."


# -- 409, 413: wait, undo the other thing first, or send less --------------------------------


class Conflict(Error):
    status = HTTPStatus.CONFLICT
    text = "The state of node {node} does not allow this: {reason}"


class NodeLocked(Conflict):
    text = (
        "Node {node} is locked by host {host}, please retry after the current operation is "
        "completed."
    )
    retryable = True


class LockLost(Conflict):
    text = "The lock on node {node} was lost to another conductor; this worker stops."


class Duplicate(Conflict):
    text = "A {what} with {key} {value} already exists."


class NodeRetired(Conflict):
    text = (
        "Node {node} is retired and cannot be made available. Set retired to false to take it "
        "back into service."
    )


class TooLarge(Error):
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    text = "The request body is larger than {limit} KiB."


# -- 503: nothing wrong, come back later -----------------------------------------------------


class Unavailable(Error):
    status = HTTPStatus.SERVICE_UNAVAILABLE
    text = "The service cannot do this just now; retry later."
    retryable = True


class NoFreeWorker(Unavailable):
    text = "Requested action cannot be performed due to lack of free conductor workers."


class NoConductor(Unavailable):
    text = (
        "The conductor {host} responsible for this request does not answer. "
        "GET /v1/conductors tells which are alive; retry when it is back."
    )


class TooManyActions(Unavailable):
    text = "Limit of {limit} nodes doing {action} at once reached; retry when some have finished."


class Stopping(Unavailable):
    text = "Conductor {host} is stopping; the work goes on after its restart or elsewhere."


class UnknownMethod(Error):
    text = (
        "Conductor {host} does not know the method {method} (its RPC API version is {version}); "
        "upgrade it."
    )


class LibraryMissing(Error):
    text = "The conductor's machine lacks {library}, which {purpose}; install it there."


# -- the machine said no ---------------------------------------------------------------------


class HardwareError(Error):
    text = "{reason}"


class BmcUnreachable(HardwareError):
    text = "Cannot reach the BMC at {address}: {reason}. Check the address and the network."
    retryable = True


class BmcAccessDenied(HardwareError):
    text = (
        "The BMC at {address} refused the credentials of user {user}. Check the user name and "
        "password in driver_info."
    )


class BmcBadAnswer(HardwareError):
    text = "The BMC at {address} gave an answer that cannot be used: {reason}."


class PowerFailure(HardwareError):
    text = "Failed to set node power state to {target}: {reason}"


class StepFailed(HardwareError):
    text = "Step {step} failed: {reason}"


class CleanStepFailed(StepFailed):
    """Named by S2.8 (conflict C20): a clean step failed."""


class DeployStepFailed(StepFailed):
    """Named by S3.17 (conflict C20): a deploy step failed."""


class AgentChanged(HardwareError):
    """Drivers say so of a step their agent refused: it is another agent than before (S2.29)."""

    text = "The agent's hardware managers are others than those which listed its steps: {reason}"
    retryable = True


class TimedOut(HardwareError):
    text = "Timeout reached while {action} the node {node}. {hint}"


class Aborted(Error):
    """Not a fault: somebody asked for it (C10)."""

    text = "By request, the {action} operation was aborted{where}."


class Interrupted(Error):
    text = (
        "The conductor {host} went away while {action} this node, which can't be resumed by "
        "conductor {by}. Repeat the request."
    )
    retryable = True


class StepsUnavailable(Error):
    """The list is only known once an agent has run (S1.26, S1.36); ``seconds`` -1: unknown."""

    status = HTTPStatus.ACCEPTED
    text = (
        "The steps of node {node} are not available yet; "
        "the Retry-Request-After header says when to ask again."
    )


def _tree(root: type[Error]) -> dict[str, type[Error]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


def from_data(data: dict[str, Any]) -> Error:
    """Rebuild an error from ``as_data``; an unknown code becomes a plain ``Error``."""
    kind = _tree(Error).get(data.get("code", ""), Error)
    return kind(data.get("text"), **(data.get("facts") or {}))
