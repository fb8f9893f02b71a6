"""Errors caused by a machine, its BMC, its agent or its image."""

from __future__ import annotations

from ironic_lite.errors.root import Error


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
