"""Every error this service raises on purpose: a status, a sentence, and the facts that fill it.

The branch tells a caller what to do, so branches are few::

    Error                          500  a fault of ours
    +- InvalidRequest              400  the operator's fault: mend the request
    |  +- InvalidParameter              a value (of the body, of driver_info) is wrong
    |  |  +- UnexpectedArguments        a key or an argument that nobody reads
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
    |  +- DeployTemplateNotFound, AllocationNotFound, RunbookNotFound, InspectionRuleNotFound
    |  +- PortgroupNotFound, VolumeConnectorNotFound, VolumeTargetNotFound
    +- NotAcceptable               406  newer than the version asked for
    +- Conflict                    409  retry when the other thing is over
    |  +- NodeLocked                    somebody works on the node
    |  +- Overtaken                     others have changed the node meanwhile
    |  +- LockLost                      our lease is gone: stop at once
    |  +- Duplicate                     a unique value is taken
    |  +- NodeRetired                   take it back into service first
    +- PreconditionFailed          412  If-Match names another state of the node
    +- TooLarge                    413
    +- Unavailable                 503  retry later
    |  +- NoFreeWorker
    |  +- NoConductor
    |  |  +- ConductorAbsent            it took nothing: another may be asked
    |  |  +- ConductorSilent            it may have begun
    |  +- TooManyActions
    |  +- Crowded                       the API has too much in hand already
    |  +- Pinned                        an upgrade is under way; older conductors cannot do it
    |  +- Stopping                      not for callers: a worker leaves its node to the next owner
    |  +- DiskFull                      make room on the conductor's machine
    +- HardwareError               500  the machine or its BMC said no, or nothing
    |  +- BmcUnreachable                retryable
    |  +- BmcAccessDenied               wrong credentials
    |  +- BmcBadAnswer                  it answered, and not what Redfish or we can use
    |  +- PowerFailure
    |  +- ImageUnusable                 it is not what its checksum or format says
    |  +- StepFailed                    the parent of CleanStepFailed and DeployStepFailed
    |  +- AgentChanged                  a driver found another agent; it is asked anew
    |  +- AgentUnreachable              retryable: no agent speaks, or not just now
    |  +- AgentBusy                     retryable: it does something else just now
    |  +- AgentRefused                  it answered, and will not or cannot
    |  +- AgentCommandFailed            it tried, and failed
    |  +- TimedOut
    +- UnknownMethod               500  the conductor is older than the API
    +- LibraryMissing              500  install it on the conductor's machine
    +- LocalFileError              500  a file of the conductor's machine cannot be used
    +- KeyMissing                  500  what is encrypted in the database needs another key
    +- DownloadFailed              500  what a URL leads to cannot be had
    +- Aborted                     500  by request; only ever the end of a run
    +- Interrupted                 500  by the death of a conductor; only ever the end of a run
    +- StepsUnavailable            202  the step list is not known yet (S1.26)

``retryable`` is a fact of the class. Errors cross RPC by class name and facts, see ``as_data`` and
``from_data``.

The classes are in modules by whose turn it is: the caller's (``refusals``), this service's
(``service``), the machine's (``machine``). Users import this package alone.
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
    BmcUnreachable,
    CleanStepFailed,
    DeployStepFailed,
    HardwareError,
    ImageUnusable,
    PowerFailure,
    StepFailed,
    TimedOut,
)
from ironic_lite.errors.refusals import (
    AllocationNotFound,
    ChassisNotFound,
    ConductorNotFound,
    Conflict,
    DeployTemplateNotFound,
    DriverNotFound,
    Duplicate,
    Forbidden,
    IncompatibleInterface,
    InspectionRuleNotFound,
    InterfaceNotFound,
    InvalidParameter,
    InvalidRequest,
    InvalidState,
    LockLost,
    MissingParameter,
    NodeInMaintenance,
    NodeLocked,
    NodeNotFound,
    NodeProtected,
    NodeRetired,
    NotAcceptable,
    NotFound,
    NoValidDefaultForInterface,
    NoValidHost,
    Overtaken,
    PortgroupNotFound,
    PortNotFound,
    PreconditionFailed,
    RunbookNotFound,
    TooLarge,
    Unauthorized,
    UnexpectedArguments,
    UnsupportedDriverExtension,
    VolumeConnectorNotFound,
    VolumeTargetNotFound,
)
from ironic_lite.errors.root import (
    Error,
    from_data,
)
from ironic_lite.errors.service import (
    Aborted,
    ConductorAbsent,
    ConductorSilent,
    Crowded,
    DiskFull,
    DownloadFailed,
    Interrupted,
    KeyMissing,
    LibraryMissing,
    LocalFileError,
    NoConductor,
    NoFreeWorker,
    Pinned,
    StepsUnavailable,
    Stopping,
    TooManyActions,
    Unavailable,
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
    "BmcUnreachable",
    "ChassisNotFound",
    "CleanStepFailed",
    "ConductorAbsent",
    "ConductorNotFound",
    "ConductorSilent",
    "Conflict",
    "Crowded",
    "DeployStepFailed",
    "DeployTemplateNotFound",
    "DiskFull",
    "DownloadFailed",
    "DriverNotFound",
    "Duplicate",
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
    "KeyMissing",
    "LibraryMissing",
    "LocalFileError",
    "LockLost",
    "MissingParameter",
    "NoConductor",
    "NoFreeWorker",
    "NoValidDefaultForInterface",
    "NoValidHost",
    "NodeInMaintenance",
    "NodeLocked",
    "NodeNotFound",
    "NodeProtected",
    "NodeRetired",
    "NotAcceptable",
    "NotFound",
    "Overtaken",
    "Pinned",
    "PortNotFound",
    "PortgroupNotFound",
    "PowerFailure",
    "PreconditionFailed",
    "RunbookNotFound",
    "StepFailed",
    "StepsUnavailable",
    "Stopping",
    "TimedOut",
    "TooLarge",
    "TooManyActions",
    "Unauthorized",
    "Unavailable",
    "UnexpectedArguments",
    "UnknownMethod",
    "UnsupportedDriverExtension",
    "VolumeConnectorNotFound",
    "VolumeTargetNotFound",
    "from_data",
]
