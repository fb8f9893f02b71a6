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
    +- PreconditionFailed          412  If-Match names another state of the node or batch
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
    |  +- Stopping                      internal: a worker leaves its node to the next owner
    |  +- DiskFull                      make room on the conductor's machine
    |  +- OpenError                     a configured file or address cannot be opened now
    +- HardwareError               500  the machine or its BMC refused, or did not answer
    |  +- BmcUnreachable                retryable
    |  +- BmcAccessDenied               wrong credentials
    |  +- BmcBadAnswer                  an answer that is not Redfish, or cannot be used
    |  +- BmcTaskFailed                 the BMC began the work, and its task failed
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

The modules divide the classes by the party that has to act: the client (``refusals``), this service
(``service``), the machine (``machine``). Users import this package only.
"""

from __future__ import annotations

from ironic_lite.errors.machine import (
    AgentBusy,
    AgentChanged,
    AgentCommandFailed,
    AgentRefused,
    AgentUnreachable,
    BmcAccessDenied,
    BmcBadAnswer,
    BmcTaskFailed,
    BmcUnreachable,
    CleanStepFailed,
    DataNotProven,
    DeadlinePassed,
    DeployStepFailed,
    HardwareError,
    ImageUnusable,
    PowerFailure,
    StepFailed,
    StepInterrupted,
    TimedOut,
)
from ironic_lite.errors.refusals import (
    AllocationNotFound,
    ChassisNotFound,
    ConcurrentUpdate,
    ConductorNotFound,
    Conflict,
    DeployTemplateNotFound,
    DriverNotFound,
    Duplicate,
    EndedOtherwise,
    Forbidden,
    IncompatibleInterface,
    InspectionRuleNotFound,
    InterfaceNotFound,
    InvalidParameter,
    InvalidRequest,
    InvalidState,
    KeyInUse,
    KeyReused,
    LockLost,
    MissingParameter,
    NodeHeld,
    NodeInMaintenance,
    NodeLocked,
    NodeNotFound,
    NodeProtected,
    NodeRetired,
    NotAcceptable,
    NotFound,
    NothingToRetry,
    NotYet,
    NoValidDefaultForInterface,
    NoValidHost,
    PortgroupNotFound,
    PortNotFound,
    PreconditionFailed,
    ProjectLimit,
    RightsLost,
    RunbookNotFound,
    StepInDoubt,
    TooLarge,
    TooManyKeys,
    TooManyWebhooks,
    Unauthorized,
    UnexpectedArguments,
    UnexpectedCount,
    UnsupportedDriverExtension,
    VolumeConnectorNotFound,
    VolumeTargetNotFound,
    WebhookChanged,
)
from ironic_lite.errors.root import (
    Error,
    from_data,
)
from ironic_lite.errors.service import (
    Aborted,
    ConductorNotListening,
    ConductorUnresponsive,
    DatabaseRestored,
    DiskFull,
    DownloadFailed,
    Interrupted,
    KeyMissing,
    LibraryMissing,
    LocalFileError,
    NoConductor,
    NoFreeWorker,
    OpenError,
    Pinned,
    RowTooLarge,
    StepsUnavailable,
    Stopping,
    TooManyActions,
    TooManyBatches,
    TooManyRequests,
    Unavailable,
    Unexpected,
    UnknownMethod,
)

__all__ = [
    "Aborted",
    "AgentBusy",
    "AgentChanged",
    "AgentCommandFailed",
    "AgentRefused",
    "AgentUnreachable",
    "AllocationNotFound",
    "BmcAccessDenied",
    "BmcBadAnswer",
    "BmcTaskFailed",
    "BmcUnreachable",
    "ChassisNotFound",
    "CleanStepFailed",
    "ConcurrentUpdate",
    "ConductorNotFound",
    "ConductorNotListening",
    "ConductorUnresponsive",
    "Conflict",
    "DataNotProven",
    "DatabaseRestored",
    "DeadlinePassed",
    "DeployStepFailed",
    "DeployTemplateNotFound",
    "DiskFull",
    "DownloadFailed",
    "DriverNotFound",
    "Duplicate",
    "EndedOtherwise",
    "Error",
    "Forbidden",
    "HardwareError",
    "ImageUnusable",
    "IncompatibleInterface",
    "InspectionRuleNotFound",
    "InterfaceNotFound",
    "Interrupted",
    "InvalidParameter",
    "InvalidRequest",
    "InvalidState",
    "KeyInUse",
    "KeyMissing",
    "KeyReused",
    "LibraryMissing",
    "LocalFileError",
    "LockLost",
    "MissingParameter",
    "NoConductor",
    "NoFreeWorker",
    "NoValidDefaultForInterface",
    "NoValidHost",
    "NodeHeld",
    "NodeInMaintenance",
    "NodeLocked",
    "NodeNotFound",
    "NodeProtected",
    "NodeRetired",
    "NotAcceptable",
    "NotFound",
    "NotYet",
    "NothingToRetry",
    "OpenError",
    "Pinned",
    "PortNotFound",
    "PortgroupNotFound",
    "PowerFailure",
    "PreconditionFailed",
    "ProjectLimit",
    "RightsLost",
    "RowTooLarge",
    "RunbookNotFound",
    "StepFailed",
    "StepInDoubt",
    "StepInterrupted",
    "StepsUnavailable",
    "Stopping",
    "TimedOut",
    "TooLarge",
    "TooManyActions",
    "TooManyBatches",
    "TooManyKeys",
    "TooManyRequests",
    "TooManyWebhooks",
    "Unauthorized",
    "Unavailable",
    "Unexpected",
    "UnexpectedArguments",
    "UnexpectedCount",
    "UnknownMethod",
    "UnsupportedDriverExtension",
    "VolumeConnectorNotFound",
    "VolumeTargetNotFound",
    "WebhookChanged",
    "from_data",
]
