"""What is up to this service and the machines it runs on: it is busy, ends, or lacks something."""

from __future__ import annotations

from http import HTTPStatus
from typing import ClassVar

from ironic_lite.errors.root import Error

# -- 503: nothing wrong, come back later -----------------------------------------------------


class Unavailable(Error):
    status = HTTPStatus.SERVICE_UNAVAILABLE
    text = "The service cannot do this just now; retry later."
    retryable = True
    retry_after: ClassVar[int] = 5
    """Seconds before which it is no use to ask again, for the header of that name."""


class NoFreeWorker(Unavailable):
    text = "Requested action cannot be performed due to lack of free conductor workers."


class NoConductor(Unavailable):
    text = (
        "The conductor {host} responsible for this request does not answer. "
        "GET /v1/conductors tells which are alive; retry when it is back."
    )


class ConductorAbsent(NoConductor):
    """Nobody took the message: nothing has begun, and another may be asked in its place."""


class ConductorSilent(NoConductor):
    """It gives no sign of life, or went away; it may have begun. An older release may begin yet."""


class TooManyActions(Unavailable):
    retry_after = 30
    text = "Limit of {limit} nodes doing {action} at once reached; retry when some have finished."


class Stopping(Unavailable):
    text = "Conductor {host} is stopping; the work goes on after its restart or elsewhere."


class Crowded(Unavailable):
    """Nobody has looked at the request yet; its connection is closed, so that others get in."""

    text = "The API has too many requests in hand ({limit}, see [api]{option}); retry later."


class Pinned(Unavailable):
    retry_after = 60
    text = (
        "The service is being upgraded from release {release} ([DEFAULT]pin_release_version), "
        "whose conductors do not know {what}; retry when that is done."
    )


class DiskFull(Unavailable):
    retry_after = 60
    text = "No room is left on the conductor's disk for {path}. Make some, then repeat the request."


class UnknownMethod(Error):
    text = (
        "Conductor {host} does not know the method {method} (its RPC API version is {version}); "
        "upgrade it."
    )


class LibraryMissing(Error):
    text = "The conductor's machine lacks {library}, which {purpose}; install it there."


class KeyMissing(Error):
    text = (
        "The database has values that were encrypted with the key known as {key}, which is not "
        "among [database]encryption_keys of this process: add it there, at any place but the first."
    )


class LocalFileError(Error):
    text = "The file {path} of the conductor's machine cannot be used: {reason}."


class DownloadFailed(Error):
    text = "Cannot fetch {url}: {reason}. Check the address, and that the conductor reaches it."
    retryable = True


# -- the end of a run, and what is not known yet ---------------------------------------------


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
