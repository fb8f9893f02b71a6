"""Errors that a client can act on: fix the request, wait, or resolve a conflict."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from http import HTTPStatus

from ironic_lite.errors.root import Error

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
        "Node {node} is held ({about}): {reason}. It blocks {block}, and so {operation}. End the "
        "hold with DELETE /v1/nodes/{node}/holds/{hold} first."
    )


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
    """The node or batch is no longer the one the client has read (RFC 9110, 13.1.1)."""

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
