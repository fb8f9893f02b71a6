"""What a machine, its BMC, its agent or its image is the reason of."""

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


class ImageUnusable(HardwareError):
    text = "The image {image} is not what it should be: {reason}."


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


class AgentUnreachable(HardwareError):
    text = (
        "The agent of node {node} does not answer: {reason}. Look at the machine's console, and "
        "whether its network lets the conductor reach it."
    )
    retryable = True


class AgentBusy(HardwareError):
    text = "The agent of node {node} is at work: {reason}"
    retryable = True


class AgentRefused(HardwareError):
    text = "The agent of node {node} at {address} gave no usable answer ({what}): {reason}"


class AgentCommandFailed(HardwareError):
    text = "{reason} ({type}, of the agent's {command})"


class TimedOut(HardwareError):
    text = "Timeout reached while {action} the node {node}. {hint}"
