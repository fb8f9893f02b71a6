"""Errors of this service and its machines: busy, stopping, or lacking something."""

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
