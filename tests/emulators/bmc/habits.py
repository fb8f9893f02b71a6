"""Differences of real machines from each other and from the standard."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Habits:
    """Differences of a machine from an ideal one. Tests change them while it runs."""

    power_polls: int = 0
    """Looks at the system that a power change takes; it reads PoweringOn or -Off meanwhile."""
    power_stuck: bool = False
    """Resets are accepted, and nothing happens."""
    deaf_to_button: bool = False
    """GracefulShutdown and GracefulRestart are accepted, and the system ignores them."""
    boot_progress: str | None = None
    """Instead of the boot progress: the state that is shown while the machine is on, as None of
    Supermicro X13 and SystemHardwareInitializationComplete of BlueField-3."""
    keeps_boot: bool = True
    """BootSourceOverrideEnabled may be Continuous."""
    whole_boot: bool = False
    """A change of Boot must have mode, target and enabled together."""
    tasks: frozenset[str] = frozenset({"create", "delete", "initialize", "update"})
    """What is answered with 202 and a task; also ``bios``, ``media``, ``power`` (resets) and
    ``change`` (PATCH) are possible. Others happen at once."""
    task_polls: int = 1
    """Looks at a task that find it running."""
    task_seconds: float | None = None
    """Instead of ``task_polls``: the time a task takes, whether it is looked at or not."""
    task_fails: str | None = None
    """Tasks that start from now on end in Exception, with these words."""
    task_body: bool = True
    """The answer 202 carries the task, not only the address of its monitor."""
    task_hidden: int = 0
    """Instead of 202 and a task, changes of volumes are answered with this status, and go on."""
    monitor_end: str = "task"
    """What a monitor says after the end: the ``task`` (200), the ``operation``'s own answer (204,
    or 400 with the error), or that it is ``gone`` (404)."""
    task_status: int = 0
    """Looks at tasks and monitors are refused with this status, as to a user without the right."""
    tasks_vanish: bool = False
    """Tasks and their monitors are gone (404) at the end, as after a restart of the BMC."""
    firmware_on_reset: bool = False
    """New BIOS firmware waits for the next boot."""
    update_shown: str = "task"
    """What shows an update in progress: a ``task``; the ``service``, which answers 200 and shows
    Updating and Complete (Oem.Hpe.State), as HPE iLO 5; the ``inventory``, whose firmware is
    Updating; or ``nothing``, which answers 204. All but the first write new firmware of the BIOS
    and of cards only at the boot after it."""
    ignored_settings: frozenset[str] = frozenset()
    """BIOS attributes that are accepted, and stay what they were."""
    restart_requests: int = 2
    """Requests that get no answer after the BMC was reset or got new firmware."""
    restart_status: int = 503
    """What they get; 0 breaks the connection off."""
    session_seconds: float | None = None
    """Sessions not used for so long are forgotten."""
    session_limit: int = 16
    session_numbers_again: bool = False
    """The place of a session that has ended is given to the next one."""
    expands: bool = False
    """Collections are given whole, to whom asks for it (DSP0266, query parameter $expand)."""
    root_needs_login: bool = False
    """The service root is refused with 401 without a login."""
    redirects: int = 0
    """Status of a redirection to the same path with a slash, for every change without one."""
    early: int = 0
    """Number of changes and logins that are refused next, because they come too early."""
    early_status: int = 503
    early_after: str = "1"
    """Status and Retry-After of these refusals."""
    slashes: bool = False
    """All links end with a slash, as on HPE iLO."""
    etag_start: str = ""
    """The beginning of each ETag."""
    weak_etags: bool = False
    """ETags are shown as weak ones, and changes must name them as strong ones."""
    etags_in_body: bool = False
    """ETags are in the document alone (@odata.etag), not in the header of an answer."""
    needs_etag: bool = False
    """A change without If-Match is refused with 428."""
