"""Every error this service raises on purpose: a status, a message and its facts.

The branch tells a caller what to do, so branches are few::

    Error                          500  an internal fault
    +- InvalidRequest              400  fix the request
    |  +- InvalidParameter              a value (of the body, of driver_info) is wrong
    |  |  +- UnexpectedArguments        an unknown key or argument
    |  +- MissingParameter              a value is missing
    |  +- InvalidState                  this verb is not possible in this state
    |  +- NodeInMaintenance             end the maintenance first
    |  +- NothingToRetry                the latest run has no list that a retry can continue
    |  +- InterfaceNotFound             an interface that is not enabled
    |  +- IncompatibleInterface         an interface that does not fit this hardware type
    |  +- NoValidDefaultForInterface    no enabled interface is a default: name one
    |  +- UnsupportedDriverExtension    the driver does not support this
    |  +- NoValidHost                   no living conductor drives this hardware type
    +- Unauthorized                401
    +- Forbidden                   403  closed endpoint
    |  +- NodeProtected                 end the protection first
    +- NotFound                    404
    |  +- NodeNotFound, PortNotFound, ChassisNotFound, DriverNotFound, ConductorNotFound
    |  +- DeployTemplateNotFound, AllocationNotFound, RunbookNotFound, InspectionRuleNotFound
    |  +- PortgroupNotFound, VolumeConnectorNotFound, VolumeTargetNotFound
    +- NotAcceptable               406  newer than the requested version
    +- Conflict                    409  retry when the other operation has ended
    |  +- NodeLocked                    another operation holds the node's lock
    |  +- UnexpectedCount               a batch would have another number of nodes than expected
    |  +- NodeHeld                      an operator's hold blocks it: end the hold first
    |  +- PowerUnread                   its BMC has not answered since its import
    |  +- TrialImport                   it was imported while Ironic ran
    |  +- TooManyWebhooks, WebhookChanged
    |  +- ProjectLimit                  a project has as much of something as it may have
    |  +- KeyInUse                      a request with this Idempotency-Key is under way
    |  +- StepInDoubt                   a step whose end is unknown must not run twice
    |  +- ConcurrentUpdate              another request has changed the node
    |  +- RightsLost                    the node has another owner or lessee than at the request
    |  +- LockLost                      the worker's lease is lost: stop at once
    |  +- Duplicate                     a unique value is taken
    |  +- NodeRetired                   take it back into service first
    +- TooManyKeys                 429  too many answers are kept for Idempotency-Keys
    +- KeyReused                   422  the Idempotency-Key belongs to another request
    +- EndedOtherwise              424  what was waited for has ended, and not as asked
    +- NotYet                      504  not in the time asked for: repeat the request
    +- PreconditionFailed          412  If-Match names another state of the resource
    +- TooLarge                    413
    +- Unavailable                 503  retry later
    |  +- NoFreeWorker
    |  +- NoConductor
    |  |  +- ConductorNotListening      the message was not received: ask another conductor
    |  |  +- ConductorUnresponsive      the work may have begun
    |  +- TooManyActions
    |  +- TooManyBatches                as many batches are open as may be
    |  +- TooManyRequests               the API serves too many requests already
    |  +- Pinned                        during an upgrade, older conductors cannot do it
    |  +- FeatureOff                    the conductor lacks the feature that sends the request
    |  +- Stopping                      internal: a worker leaves its node to the next owner
    |  +- DiskFull                      make room on the conductor's machine
    |  +- OpenError                     a configured file or address cannot be opened now
    +- HardwareError               500  the machine or its BMC refused, or did not answer
    |  +- BmcUnreachable                retryable
    |  +- BmcAccessDenied               wrong credentials
    |  +- BmcBadAnswer                  an answer that is not Redfish, or cannot be used
    |  +- BmcTaskFailed                 the BMC began the work, and its task failed
    |  +- OtherMachine                  the BMC answers for another machine
    |  +- PowerFailure
    |  +- ImageUnusable                 the image differs from its checksum or format
    |  +- StepFailed                    the parent of CleanStepFailed and DeployStepFailed
    |  +- StepInterrupted               the conductor was lost during a step
    |  +- DataNotProven                 an automated clean has no proof that the disks were erased
    |  +- AgentChanged                  a driver found another agent; its steps are listed again
    |  +- AgentUnreachable              retryable: no agent answers at the moment
    |  +- AgentBusy                     retryable: the agent runs another command
    |  +- AgentRefused                  the agent refused, or is unable
    |  +- AgentCommandFailed            the agent tried, and failed
    |  +- TimedOut
    |  |  +- DeadlinePassed             retryable: a waiting step has passed its deadline
    +- Unexpected                  500  a fault of a driver or of this service; the log has it
    +- UnknownMethod               500  the conductor is older than the API
    +- LibraryMissing              500  install it on the conductor's machine
    +- LocalFileError              500  a file of the conductor's machine cannot be used
    +- RowTooLarge                 500  raise MariaDB's max_allowed_packet
    +- KeyMissing                  500  encrypted values in the database need another key
    +- DownloadFailed              500  a URL cannot be fetched
    +- Aborted                     500  by request; only at the end of a run
    +- Interrupted                 500  the conductor died; only at the end of a run
    +- DatabaseRestored            500  ended by ``end_runs``; only at the end of a run
    +- StepsUnavailable            202  the step list is not known yet (S1.26)

``retryable`` is a fact of the class. Errors cross RPC by class name and facts, see ``as_data`` and
``from_data``.

The classes stand in three parts, by the party that has to act: the client, this service, the
machine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from http import HTTPStatus
from typing import Any, ClassVar, Self

# Text from machines, made storable in every database and in UTF-8.
#
# A BMC or an agent may send any text. It must not make a save fail, nor a later response that shows
# it.

NO_TEXT = re.compile("[\x00\ud800-\udfff]")
"""Characters that break databases (NUL) or UTF-8 (halves of surrogate pairs)."""

_LONG_SECRET = 6  # characters; a longer password does not occur in a text by chance
_LARGEST = 2**64 - 1  # the widest integer of our JSON
_SMALLEST = -(2**63)


def clean(text: str) -> str:
    """Return the text with U+FFFD in place of each character that cannot be stored."""
    return NO_TEXT.sub("\ufffd", text)


def cleaned(value: object) -> Any:
    """Return a JSON value with clean texts and keys.

    Numbers beyond 64 bits become text.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(each) for each in value]
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        return str(value)
    return value


def blanked(text: str, secret: str | None) -> str:
    """Return a text without a password.

    A short password is replaced only as a whole word: "ex***ected" would reveal that it is "p".
    """
    if not secret or secret not in text:
        return text
    if len(secret) >= _LONG_SECRET:
        return text.replace(secret, "***")
    return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)


def shown(value: object, most: int = 80) -> str:
    """Return a client's value as an error may repeat it.

    Objects and lists may be large or hold secrets, so only their kind is shown.

    :param most: characters of a text.
    """
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return repr(value[:most]) if isinstance(value, str) else repr(value)


class Error(Exception):
    """Base class of all errors of this service.

    Give the facts as keywords; ``text`` with the facts filled in becomes the message. Pass
    ``message`` for another text. Both may quote a machine, so both are made storable.

    The chain of causes is Python's: ``raise StepFailed(...) from why`` keeps ``why`` as the cause.
    """

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    text: ClassVar[str] = "Something went wrong in this service."
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, **facts: object) -> None:
        self.facts = cleaned(facts)
        said = message if message is not None else self.text.format_map(_Facts(self.facts))
        self.message = clean(said)
        super().__init__(self.message)

    def __str__(self) -> str:
        # Flows may extend the message of an error; str() must show the same text.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return from_data, (self.as_data(),)

    @property
    def code(self) -> str:
        """The class name: the stable machine-readable name of this error."""
        return type(self).__name__

    @property
    def cause(self) -> Error | None:
        """The error of this service that led to this error; None without one."""
        return self.__cause__ if isinstance(self.__cause__, Error) else None

    def because(self, why: Error) -> Self:
        """Set the cause, as ``raise ... from why`` does; return this error."""
        self.__cause__ = why
        return self

    @property
    def causes(self) -> list[Error]:
        """This error and the chain of its causes; the last one came first in time."""
        chain: list[Error] = [self]
        while (cause := chain[-1].cause) is not None and cause not in chain:
            chain.append(cause)
        return chain

    def as_data(self) -> dict[str, Any]:
        """Return the form of RPC replies.

        Keys: code, text, status, retryable, facts; with a cause also ``cause``, the first error of
        the chain in the same form.
        """
        first = self.causes[-1]
        return {**self._own_data(), **({} if first is self else {"cause": first._own_data()})}

    def _own_data(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "text": self.message,
            "status": int(self.status),
            "retryable": self.retryable,
            "facts": self.facts,
        }


class _Facts(dict[str, Any]):
    """Facts that show a missing fact by its name, instead of raising KeyError."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"


def _tree(root: type[Error]) -> dict[str, type[Error]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


def from_data(data: dict[str, Any]) -> Error:
    """Rebuild an error from ``as_data``; an unknown code becomes a plain ``Error``."""
    kind = _tree(Error).get(data.get("code", ""), Error)
    error = kind(data.get("text"), **(data.get("facts") or {}))
    cause = data.get("cause")
    return error.because(from_data(cause)) if isinstance(cause, dict) else error


# Errors that a client can act on: fix the request, wait, or resolve a conflict.

_SHOWN = 256
"""Characters of unexpected names that a refusal repeats."""

# -- 400: the request is wrong ---------------------------------------------------------------


class InvalidRequest(Error):
    status = HTTPStatus.BAD_REQUEST
    text = "The request is not valid."


class InvalidParameter(InvalidRequest):
    text = "{path}: {reason}"


class UnexpectedArguments(InvalidParameter):
    text = "Unexpected arguments: {names}. Known here: {known}."

    @classmethod
    def check(cls, given: Iterable[str], known: Collection[str]) -> None:
        """Refuse unknown names.

        :raises UnexpectedArguments: a given name is not among the known ones.
        """
        odd = sorted(name for name in given if name not in known)
        if odd:
            told = ", ".join(sorted(known)) or "none"
            names = ", ".join(odd)[:_SHOWN]
            raise cls(path=odd[0], reason="unexpected", names=names, known=told)


class MissingParameter(InvalidRequest):
    text = "Missing mandatory parameter: {path}"


class InvalidState(InvalidRequest):
    text = (
        'The requested action "{verb}" can not be performed on node "{node}" '
        'while it is in state "{state}".'
    )


class NothingToRetry(InvalidRequest):
    text = (
        "A node in the state {state} cannot be retried: {reason}. Use a verb that begins from the "
        "first step."
    )


class NodeInMaintenance(InvalidRequest):
    text = (
        "The {verb} operation can't be performed on node {node} because it's in maintenance mode. "
        "End the maintenance with DELETE /v1/nodes/{node}/maintenance first."
    )


class InterfaceNotFound(InvalidRequest):
    text = (
        "Could not find the following interface in the '{kind}' interfaces of hardware type "
        "{driver}: {name}. Valid interfaces are {valid}. {advice}"
    )


class IncompatibleInterface(InvalidRequest):
    text = (
        "Hardware type {driver} does not work with the {kind} interface {name}. "
        "Valid interfaces are {valid}; name one of them with {kind}_interface, or leave it out. To "
        "leave it out in a change of the driver, add ?reset_interfaces=true."
    )


class NoValidDefaultForInterface(InvalidRequest):
    text = "Hardware type {driver} has no default {kind} interface here: {reason}. {advice}"


class UnsupportedDriverExtension(InvalidRequest):
    text = "Driver {driver} does not support {extension} (disabled or not implemented)."


class NoValidHost(InvalidRequest):
    text = (
        'No conductor of group "{group}" which supports driver {driver} could be found. GET '
        "/v1/drivers and /v1/conductors list what is available."
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


class PortgroupNotFound(NotFound):
    text = "Portgroup {portgroup} could not be found."


class VolumeConnectorNotFound(NotFound):
    text = "Volume connector {connector} could not be found."


class VolumeTargetNotFound(NotFound):
    text = "Volume target {target} could not be found."


class ChassisNotFound(NotFound):
    text = "Chassis {chassis} could not be found."


class DeployTemplateNotFound(NotFound):
    text = "Deploy template {template} could not be found."


class AllocationNotFound(NotFound):
    text = "Allocation {allocation} could not be found."


class RunbookNotFound(NotFound):
    text = "Runbook {runbook} could not be found."


class InspectionRuleNotFound(NotFound):
    text = "Inspection rule {rule} could not be found."


class DriverNotFound(NotFound):
    text = "Could not find the following driver(s) or hardware type(s): {driver}."


class ConductorNotFound(NotFound):
    text = "Conductor {conductor} could not be found."


class NotAcceptable(Error):
    status = HTTPStatus.NOT_ACCEPTABLE
    text = "Request not acceptable. {what} needs API version 1.{since} or newer."


# -- 409, 412, 413: wait, resolve the conflict, read again, send less -----------------------------


class Conflict(Error):
    status = HTTPStatus.CONFLICT
    text = "The state of node {node} does not allow this: {reason}"


class UnexpectedCount(Conflict):
    text = (
        "The batch would have {found} nodes, not {expect} as expected. Correct the filter, or "
        'repeat the request with "expect": {found}.'
    )


class TooManyWebhooks(Conflict):
    text = "There are {most} webhooks, which is the limit; delete one of them first."


class ProjectLimit(Conflict):
    """A project has as much of something as it may have; other projects are not affected."""

    text = (
        "{whose} has {used}, and the limit for projects is {limit} ([api]{option}). Delete what is "
        "no longer needed, or have an operator raise the option."
    )


class WebhookChanged(Conflict):
    text = "Webhook {webhook} was changed at the same time; read it and repeat the request."


class NodeLocked(Conflict):
    text = (
        "Node {node} is locked by host {host}, please retry after the current operation is "
        "completed."
    )
    retryable = True


class KeyInUse(Conflict):
    text = (
        "A request with this Idempotency-Key is under way. Repeat the request; its answer will be "
        "that of the first."
    )
    retryable = True


class KeyReused(Error):
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    text = (
        "This Idempotency-Key belongs to another request, with another method, path, query or "
        "body. Use a new key for a new request."
    )


class TooManyKeys(Error):
    """Kept answers would take too much room; a request without the header is carried out."""

    status = HTTPStatus.TOO_MANY_REQUESTS
    text = (
        "The answers kept for requests with an Idempotency-Key are at their limit ({limit}, see "
        "[api]{option}); repeat the request later, or send it without the header."
    )
    retryable = True


class NodeHeld(Conflict):
    """A hold forbids the operation until an operator ends it, so retrying is of no use."""

    text = (
        "Node {node} is held ({about}): {reason}. It blocks {block}, and so {operation}. {advice}"
    )


class PowerUnread(Conflict):
    """A node that is only looked at is not released before its BMC has answered."""

    text = "Its BMC has not answered here. GET /v1/doctor?node={node} says why."


class TrialImport(Conflict):
    """A hold of a trial never ends, because another service drives the machine."""

    text = "Ironic ran when this node was imported. Import it again after the cut-over."


class StepInDoubt(Conflict):
    text = (
        "It is unknown whether the step {step} (ordinal {ordinal} of the run {run}) has ended on "
        "the machine, and its driver does not say that it may run twice. Check the machine, then "
        'repeat the request with "force": true, or waive the step.'
    )


class ConcurrentUpdate(Conflict):
    """Another request changed the node first; nothing was done.

    The API repeats the request a few times by itself.
    """

    text = "Node {node} was changed meanwhile by another request; read it again and retry."
    retryable = True


class RightsLost(Conflict):
    """The caller may have lost the right to the work since the right was checked."""

    text = (
        "Node {node} has changed hands since the rights of the request were checked: {change}. "
        "Nothing was done; repeat the request if it is still to be done."
    )


class LockLost(Conflict):
    text = "The lock on node {node} was lost to another conductor; this worker stops."


class Duplicate(Conflict):
    text = "A {what} with {key} {value} already exists."


class NodeRetired(Conflict):
    text = (
        "Node {node} is retired and cannot be made available. Set retired to false to take it "
        "back into service."
    )


class PreconditionFailed(Error):
    """The resource is no longer the one the client has read (RFC 9110, 13.1.1)."""

    status = HTTPStatus.PRECONDITION_FAILED
    text = (
        "Node {node} has changed: its ETag is {tag} now, and If-Match has {wanted}. Read it again."
    )


class TooLarge(Error):
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    text = "The request body is larger than {limit} KiB."


# -- 424, 504: answers to requests that wait ---------------------------------------------------


class EndedOtherwise(Error):
    """The run has ended without the state that a request waits for."""

    status = HTTPStatus.FAILED_DEPENDENCY
    text = (
        "Node {node} did not reach {until}: it is in the state {state}, and nothing is under way. "
        "{reason}"
    )


class NotYet(Error):
    """The time of a waiting request is over; ``curl --retry`` repeats 504 by itself."""

    status = HTTPStatus.GATEWAY_TIMEOUT
    text = (
        "{what} is not {until} yet: it is {state}. The wait of at most {seconds} s is over; repeat "
        "the request to go on."
    )
    retryable = True


# Errors of this service and its machines: busy, stopping, or lacking something.

# -- 503: nothing wrong, come back later -----------------------------------------------------


class Unavailable(Error):
    status = HTTPStatus.SERVICE_UNAVAILABLE
    text = "The service cannot do this just now; retry later."
    retryable = True
    retry_after: ClassVar[int] = 5
    """Seconds to wait before a retry, for the Retry-After header."""


class NoFreeWorker(Unavailable):
    text = "Requested action cannot be performed due to lack of free conductor workers."


class NoConductor(Unavailable):
    text = (
        "The conductor {host} responsible for this request does not answer. GET /v1/conductors "
        "shows which are alive; retry when it is back."
    )


class ConductorNotListening(NoConductor):
    """The message was not received: nothing has begun; another conductor may be asked."""


class ConductorUnresponsive(NoConductor):
    """The conductor sends no keepalive, or went away; the work may have begun.

    A conductor of an older release may still begin it.
    """


class TooManyActions(Unavailable):
    retry_after = 30
    text = "Limit of {limit} nodes doing {action} at once reached; retry when some have finished."


class TooManyBatches(Unavailable):
    retry_after = 60
    text = "There are {limit} open batches{whose}, which is the limit; retry when one has ended."


class FeatureOff(Unavailable):
    text = (
        "The feature that sends this request is off in this conductor, so nothing was begun. Set "
        "the same value of [features]enabled for the API and all conductors, and restart them."
    )


class Stopping(Unavailable):
    text = (
        "Conductor {host} is stopping; the work continues after its restart or on another "
        "conductor."
    )


class TooManyRequests(Unavailable):
    """The request was not read; its connection is closed to make room for others."""

    text = "The API is serving too many requests ({limit}, see [api]{option}); retry later."


class Pinned(Unavailable):
    retry_after = 60
    text = (
        "The service is being upgraded from release {release} ([DEFAULT]pin_release_version), "
        "whose conductors do not support {what}; retry after the upgrade."
    )


class DiskFull(Unavailable):
    retry_after = 60
    text = (
        "The conductor's disk is full: no room for {path}. Free some space, then repeat the "
        "request."
    )


class OpenError(Unavailable):
    """A file, folder or address of the configuration cannot be opened at the moment.

    This may pass without a change of the configuration: an address is taken, a disk is full. A
    program prints it as one line and exits with status 1; its service manager tries again.
    """

    text = "{reason}"


class Unexpected(Error):
    """An exception that is not one of this service's errors: a fault of a driver, or here."""

    text = "Unexpected {exception}; see the conductor's log for details."


class UnknownMethod(Error):
    text = (
        "Conductor {host} does not know the method {method} (its RPC API version is {version}); "
        "upgrade it."
    )


class LibraryMissing(Error):
    text = "The conductor's machine lacks {library}, which {purpose}; install it there."


class KeyMissing(Error):
    text = (
        "The database has values that were encrypted with the key named {key}. Add this key to "
        "[database]encryption_keys of this process, at any place but the first."
    )


class RowTooLarge(Error):
    """A server refuses the text of a row; a repetition would find the same."""

    text = "A row of the database is too large for its max_allowed_packet; raise that limit."


class LocalFileError(Error):
    text = "The file {path} of the conductor's machine cannot be used: {reason}."


class DownloadFailed(Error):
    text = "Cannot fetch {url}: {reason}. Check the address, and that the conductor can reach it."
    retryable = True


# -- the end of a run, and what is not known yet ---------------------------------------------


class Aborted(Error):
    """The operation was aborted on request, which is not a fault.

    Source: C10.
    """

    text = "By request, the {action} operation was aborted{where}."


class Interrupted(Error):
    text = (
        "The conductor {host} went away while {action} this node, which can't be resumed by "
        "conductor {by}. Repeat the request."
    )
    retryable = True


class DatabaseRestored(Error):
    text = (
        "The database was restored from a backup, and an operator ended this run without a look at "
        "the machine. Check the machine before the next request."
    )


class StepsUnavailable(Error):
    """The step list is unknown until an agent has run; ``seconds`` -1: unknown.

    Requirements S1.26 and S1.36.
    """

    status = HTTPStatus.ACCEPTED
    text = (
        "The steps of node {node} are not available yet; the Retry-Request-After header says when "
        "to ask again."
    )


# Errors caused by a machine, its BMC, its agent or its image.


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


class BmcTaskFailed(HardwareError):
    """The BMC accepted a request, and its task ended with a failure."""

    text = "The task {task} of the BMC ended as {state}: {reason}"


class OtherMachine(HardwareError):
    text = (
        "The BMC of node {node} answers for another machine: {differences}. Nothing was erased or "
        "deployed. Check the BMC's address in driver_info. If the machine was replaced, the verb "
        "manage accepts the new one."
    )


class ImageUnusable(HardwareError):
    text = "The image {image} cannot be used: {reason}."


class PowerFailure(HardwareError):
    text = "Failed to set node power state to {target}: {reason}"


class StepFailed(HardwareError):
    text = "Step {step} failed: {reason}"


class StepInterrupted(HardwareError):
    """The conductor was lost during a step, which must not run again by itself."""


class CleanStepFailed(StepFailed):
    """A clean step failed; S2.8 gives this name (conflict C20)."""


class DeployStepFailed(StepFailed):
    """A deploy step failed; S3.17 gives this name (conflict C20)."""


class DataNotProven(HardwareError):
    """[conductor]require_clean_data is set, and no record proves that the data are gone."""

    text = (
        "The data of node {node} are not proven to be erased (data_state is {state}), and "
        "[conductor]require_clean_data is set. Read GET /v1/nodes/{node}/erasures. Repeat the "
        'erasing step with the verb retry and {{"retry": {{"from": n}}}}, where n is its ordinal, '
        "erase the disks by a manual clean, or declare the state with "
        "PUT /v1/nodes/{node}/data_state."
    )


class AgentChanged(HardwareError):
    """The agent refused a step because it is another agent than before.

    Source: S2.29.
    """

    text = "The agent's hardware managers have changed since its steps were listed: {reason}"
    retryable = True


class AgentUnreachable(HardwareError):
    text = (
        "The agent of node {node} does not answer: {reason}. Check the machine's console, and "
        "that its network lets the conductor reach the agent."
    )
    retryable = True


class AgentBusy(HardwareError):
    text = "The agent of node {node} is busy: {reason}"
    retryable = True


class AgentRefused(HardwareError):
    text = "The agent of node {node} at {address} gave no usable answer ({what}): {reason}"


class AgentCommandFailed(HardwareError):
    text = "{reason} ({type}, of the agent's {command})"


class TimedOut(HardwareError):
    text = "Timeout reached while {action} the node {node}. {hint}"


class DeadlinePassed(TimedOut):
    """A waiting step has passed its deadline."""

    text = (
        "Step {step} of node {node} has been under way for {seconds} s, longer than its deadline "
        "of {deadline} s ([conductor]step_deadline). The machine may still be working on it: look "
        "at the machine before you repeat the request."
    )
    retryable = True
