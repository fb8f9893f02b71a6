"""Client of the agent's REST API, pinned to one certificate, with limits on time and size.

A request goes only to the address of the machine's last accepted heartbeat, without redirections or
proxies. Only the certificates that the agent gave with its token are trusted. The token is a query
argument, so URLs with it are never logged.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import http.client
import logging
import re
import ssl
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import orjson

from ironic_lite import errors
from ironic_lite.core import bounded_http, config, log_lines, masking, metrics
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import erasure_results
from ironic_lite.domain.steps import StepKind
from ironic_lite.drivers import allowed_networks, base, deadline
from ironic_lite.drivers.boot import modes

LOG = logging.getLogger(__name__)

# Node and ports as plain JSON for an agent's commands.
#
# They contain no secret: the agent has its own, and BMC passwords must not be in a machine's
# memory. The erasing options of [deploy] and the requested volumes are put where the agent reads
# them.

_LEFT_OUT = frozenset({"driver_notes", "agent_verify_ca", "agent_url"})
_LOCK = frozenset({"lock_token", "lock_expires", "locked_at", "lock_note", "reservation"})
_PIN = frozenset({"agent_pin", "agent_pin_generation", "agent_heard_at"})
_OURS = _LOCK | _PIN | {"generation", "wake_at", "run_stop"}
_ERASING = (
    # key of driver_internal_info, option of [deploy]
    ("agent_erase_devices_iterations", "shred_random_overwrite_iterations"),
    ("agent_erase_devices_zeroize", "shred_final_overwrite_with_zeros"),
    ("agent_continue_if_secure_erase_failed", "continue_if_disk_secure_erase_fails"),
    ("agent_enable_ata_secure_erase", "enable_ata_secure_erase"),
    ("agent_enable_nvme_secure_erase", "enable_nvme_secure_erase"),
    ("erase_method", "erase_method"),
    ("disk_erasure_concurrency", "disk_erasure_concurrency"),
    ("agent_erase_skip_read_only", "erase_skip_read_only"),
)


def node_for_agent(task: base.Task) -> Json:
    """Return the node as the agent expects it."""
    columns = task.node.as_dict()
    shown = {
        name: masking.field(name, value) for name, value in columns.items() if name not in _OURS
    }
    kept = shown.get("driver_internal_info") or {}
    settings = config.CONF.deploy
    shown["driver_internal_info"] = {
        **{key: kept[key] for key in kept if key not in _LEFT_OUT and "_steps" not in key},
        **{key: getattr(settings, option) for key, option in _ERASING},
        erasure_results.READER: True,
        "target_raid_config": shown.get("target_raid_config") or {},
        **_boot_mode(task),
    }
    return shown


def _boot_mode(task: base.Task) -> Json:
    """Return the instance's boot mode, which decides on the type of its partition table.

    Without it, the agent uses the boot mode of its own ramdisk, which may differ where a BMC does
    not support boot modes.
    """
    try:
        return {"deploy_boot_mode": modes.wanted(task.node)}
    except errors.InvalidParameter:
        return {}  # deployments are refused for it; a clean does not need it


def node_and_ports(task: base.Task) -> Json:
    """Return the two arguments that all commands about steps have in common."""
    return {"node": node_for_agent(task), "ports": [port.as_dict() for port in task.ports]}


# Parsing of an agent's command list, to find the command of a step. Pure.
#
# Commands live in the agent's memory, run one at a time, and are lost with its ramdisk. The step's
# id (``Task.step_id``) is sent with it and returned with its result, so a conductor that died
# between request and note finds its step again.

STEP_ID = "ironic_lite_step_id"
"""The key of a step for its id; the agent returns the whole step."""
STEP_EXTENSIONS: Mapping[StepKind, str] = {
    StepKind.CLEAN: "clean",
    StepKind.DEPLOY: "deploy",
    StepKind.SERVICE: "service",
}
"""Step kinds of agents, and the agent's extension for each."""


class CommandStatus(enum.StrEnum):
    """Status of a command in the agent's words."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CHANGED = "CLEAN_VERSION_MISMATCH"

    @classmethod
    def read(cls, word: object) -> CommandStatus | None:
        """Return the status of a word, None for an unknown word."""
        if word == "VERSION_MISMATCH":  # a later name of the same status
            return cls.CHANGED
        return next((status for status in cls if status == word), None)


_MOST = 1000  # characters kept from the beginning and from the end of an error text


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A command as the agent reports it.

    ``name`` has no extension; ``value`` is the result; ``kind``, ``reason`` and ``code`` are those
    of the error, and ``erasure`` the report of a failed erasing step, unchecked.
    """

    id: str
    name: str
    status: CommandStatus
    value: JsonView = dataclasses.field(default_factory=dict, repr=False)
    kind: str = ""
    reason: str = ""
    code: int | None = None
    erasure: object = dataclasses.field(default=None, repr=False)


def read_command(document: object) -> Command:
    """Parse a command in an answer.

    :raises ValueError: naming the fault.
    """
    if not isinstance(document, Mapping):
        raise ValueError("a command is not a JSON object")
    known, name = document.get("id"), document.get("command_name")
    status = CommandStatus.read(document.get("command_status"))
    if not (isinstance(known, str) and isinstance(name, str)):
        raise ValueError("a command has no id or no command_name")
    if status is None:
        raise ValueError(f"command_status is {document.get('command_status')!r:.80}")
    value, why = document.get("command_result"), document.get("command_error")
    return Command(
        known,
        name.rpartition(".")[2],
        status,
        value if isinstance(value, Mapping) else {},
        *_error_text(why),
        why.get("erasure") if isinstance(why, Mapping) else None,
    )


def _error_text(why: object) -> tuple[str, str, int | None]:
    """Return type, text and code of an error; ``details``, if present, tells more."""
    if not isinstance(why, Mapping):
        return "", _shortened_text(str(why)) if why else "", None
    said, code = why.get("details") or why.get("message") or "", why.get("code")
    kind = str(why.get("type") or "")[:_MOST]
    return kind, _shortened_text(str(said)), code if isinstance(code, int) else None


def _shortened_text(text: str) -> str:
    """Return the beginning and the end of a long text, because a program's last words matter."""
    return text if len(text) <= 2 * _MOST else f"{text[:_MOST]} [...] {text[-_MOST:]}"


def read_commands(document: object) -> list[Command]:
    """Parse all commands of an answer, oldest first.

    Broken ones are left out, except the last one, which may be running.

    :raises ValueError: naming the fault of the list or of its last command.
    """
    listed = document.get("commands") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError("there is no list of commands")
    found = []
    for place, one in enumerate(listed, 1):
        try:
            found.append(read_command(one))
        except ValueError:
            if place == len(listed):
                raise
    return found


def step_command(kind: StepKind) -> str:
    """Return the name of the command that runs a step of this kind, without the extension."""
    return f"execute_{kind}_step"


def begun_command(commands: Sequence[Command], kind: StepKind, step_id: str) -> Command | None:
    """Return the command of a step whose start was not noted.

    The agent runs one command at a time, and only this service sends commands, so a running step
    command is this one. A finished command contains its step, unless it failed; then the step runs
    again.
    """
    last = commands[-1] if commands else None
    if last is None or last.name != step_command(kind):
        return None
    if last.status is CommandStatus.RUNNING:
        return last
    echo = last.value.get(f"{kind}_step")
    mine = isinstance(echo, Mapping) and echo.get(STEP_ID) == step_id
    return last if mine else None


def running_command(commands: Sequence[Command], name: str) -> Command | None:
    """Return the command ``name`` if the agent runs it now."""
    last = commands[-1] if commands else None
    runs = last is not None and last.name == name and last.status is CommandStatus.RUNNING
    return last if runs else None


def new_command(before: Sequence[Command], now: Sequence[Command], name: str) -> Command | None:
    """Return the command ``name`` that is new since ``before``, so its request had arrived."""
    known = {one.id for one in before}
    last = now[-1] if now else None
    return last if last is not None and last.id not in known and last.name == name else None


T = TypeVar("T")

LIMIT = 80 * 1024 * 1024
"""Bytes one answer may have. Most have some kilobytes, and collected logs some megabytes. The
result of a step contains its arguments, and a configuration drive may have 64 MiB."""
KEPT = bounded_http.IdleConnections(10.0)
"""Connections to agents, by node, address and certificate."""
_ADDRESS = re.compile(r"https?://[^\s'\"<>]+", re.IGNORECASE)
_PAUSE = 1.0  # seconds between two attempts
_SHORT_SECONDS = 10.0  # for a request that will be repeated
_SHORT = 400  # characters of an answer that are quoted


class AgentClient:
    """Commands to the agent that runs in the machine of a task.

    Every method may raise ``errors.AgentUnreachable`` (no answer; retryable),
    ``errors.AgentRefused`` (an unexpected answer), ``errors.Stopping`` and ``errors.LockLost``.
    """

    def __init__(self, task: base.Task) -> None:
        """Prepare the connection; nothing is sent yet.

        :raises errors.AgentUnreachable: no agent has sent a heartbeat since the ramdisk booted.
        :raises errors.AgentRefused: its certificate is missing or invalid.
        """
        agent = task.agent
        if agent is None:
            reason = "it has sent no heartbeat since its ramdisk booted"
            raise errors.AgentUnreachable(node=task.node.uuid, reason=reason)
        self._task, self._agent = task, agent
        parts = urllib.parse.urlsplit(agent.url)
        self._address = (parts.hostname or "", parts.port)
        self._path = parts.path.rstrip("/")
        self._tls = self._pinned_context(agent) if parts.scheme == "https" else None

    def _pinned_context(self, agent: base.Agent) -> ssl.SSLContext:
        if not agent.verify_ca:
            raise self._agent_refused("connect", "it has an https address but gave no certificate")
        conf = config.CONF.agent
        try:
            return _tls_context(agent.verify_ca, conf.tls_minimum_version, conf.tls_ciphers)
        except ValueError as why:
            raise self._agent_refused("connect", f"its certificate cannot be read: {why}") from None

    # -- questions ---------------------------------------------------------------------------

    def commands(self) -> list[Command]:
        """Return the commands given to the agent since its start, oldest first."""
        document = self._retry_connection(
            "commands", lambda: self._send_request("GET", "/v1/commands/")
        )
        return self._read_result("commands", read_commands, document)

    def result(self, command_id: str) -> Command | None:
        """Return the result of a command; None if the agent does not know its id.

        Sends one request with a short timeout, because the caller repeats it soon, and a hanging
        agent must not block a worker.
        """
        path = f"/v1/commands/{urllib.parse.quote(command_id, safe='')}"
        try:
            document = self._send_request("GET", path, timeout=_SHORT_SECONDS)
        except errors.AgentRefused as why:
            if why.facts.get("status") == HTTPStatus.NOT_FOUND:
                return None
            raise
        except OSError as why:
            raise self._agent_unreachable(why) from None
        return self._read_result("commands", read_command, document)

    # -- commands ----------------------------------------------------------------------------

    def start(
        self, name: str, params: JsonView, *, before: Sequence[Command] | None = None
    ) -> Command:
        """Start a command, and return it as soon as it runs.

        A lost connection does not start it twice, because the command list is read first.

        :param name: ``extension.command``.
        :param params: its arguments; a wrong name may break the agent until its next boot.
        :param before: the commands listed a moment ago, None to list them.
        :raises errors.AgentBusy: another command runs (retryable); nothing was started.
        """
        known = self.commands() if before is None else before
        return self._post_order(name, params, wait=False, known=known)

    def call(self, name: str, params: JsonView, *, timeout: float | None = None) -> JsonView:
        """Run a short command, and return its result.

        :param timeout: seconds it may take, None for [agent]command_timeout.
        :raises errors.AgentBusy: another command runs (retryable); nothing was started.
        :raises errors.AgentCommandFailed: the command ran and failed.
        :raises errors.AgentChanged: the agent's hardware managers differ from the expected ones.
        """
        found = self._post_order(name, params, wait=True, known=(), timeout=timeout)
        return self.value(found)

    def value(self, found: Command) -> JsonView:
        """Return the result value of a command that has ended.

        :raises errors.AgentCommandFailed, errors.AgentChanged: as `call`.
        """
        if found.status is CommandStatus.SUCCEEDED:
            return found.value
        if found.status is CommandStatus.CHANGED:
            reason = errors.clean(self._without_token(found.reason))
            raise errors.AgentChanged(reason=reason or "it does not say which")
        why = (
            self._without_token(found.reason)
            if found.status is CommandStatus.FAILED
            else "it has not ended"
        )
        about = {"type": found.kind, "code": found.code, "message": why}
        raise errors.AgentCommandFailed(
            node=self._task.node.uuid,
            command=found.name,
            type=found.kind,
            reason=why,
            agent_error=about,
        )

    def _post_order(
        self,
        name: str,
        params: JsonView,
        *,
        wait: bool,
        known: Sequence[Command],
        timeout: float | None = None,
    ) -> Command:
        """Send a command, and add it to the log of the run; its arguments may be secret."""
        watch, said = metrics.Watch(), "no answer"
        try:
            found = self._send_order(name, params, wait=wait, known=known, timeout=timeout)
            said = found.status.value.lower()
        except errors.Error as why:
            said = why.code
            raise
        finally:
            log_lines.note_run_line("agent", f"command {name}: {said}, {watch.seconds:.3f} s")
        return found

    def _send_order(
        self,
        name: str,
        params: JsonView,
        *,
        wait: bool,
        known: Sequence[Command],
        timeout: float | None = None,
    ) -> Command:
        body = orjson.dumps({"name": name, "params": params})
        query = {"wait": "true" if wait else "false"}

        def post() -> Any:
            return self._send_request("POST", "/v1/commands/", query, body, timeout)

        if wait:  # these commands are idempotent
            return self._read_result(name, read_command, self._retry_connection(name, post))
        try:
            return self._read_result(name, read_command, post())
        except OSError as why:
            LOG.info("Node %s: lost the agent while starting %s", self._task.node.uuid, name)
            begun = new_command(known, self.commands(), name.rpartition(".")[2])
            if begun is not None:
                return begun
            raise self._agent_unreachable(why) from None

    # -- the wire ----------------------------------------------------------------------------

    def _retry_connection(self, what: str, send: Callable[[], T]) -> T:
        """Send a request, and retry it if there is no connection; a refusal is not retried."""
        attempts = config.CONF.agent.max_command_attempts
        for attempt in range(1, attempts + 1):
            try:
                return send()
            except OSError as why:
                if attempt == attempts:
                    raise self._agent_unreachable(why) from None
                LOG.info("Node %s: its agent: %s: retrying", self._task.node.uuid, what)
                self._task.pause(_PAUSE)
        raise AssertionError("[agent]max_command_attempts is 1 or more")

    def _send_request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Return the JSON of an answer.

        :raises OSError: no complete answer came in time.
        :raises errors.LockLost: nothing was sent, because another conductor has the node.
        """
        asked = urllib.parse.urlencode({**(query or {}), "agent_token": self._agent.token})
        seconds = deadline.within(timeout or config.CONF.agent.command_timeout)
        limits = bounded_http.Limits(connect=seconds, whole=seconds, size=LIMIT)
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        host, port = self._address
        judge = allowed_networks.judge("agent")
        made = bounded_http.Connection(host, port, limits=limits, judge=judge, tls=self._tls)
        request = bounded_http.HttpRequest(method, f"{self._path}{path}?{asked}", headers, body)
        node, agent = self._task.node.uuid, self._agent
        try:
            with bounded_http.AnswerMemory(LIMIT, seconds) as memory:
                answer = KEPT.exchange(
                    (node, agent.url, agent.verify_ca),
                    made,
                    request,
                    before=lambda: self._task.confirm_lock(changes=method != "GET"),
                    memory=memory,
                )
                deadline.SILENT.note(node, silent=False)
                return self._checked_answer(answer.status, answer.content)
        except ssl.SSLCertVerificationError:
            reason = "its certificate differs from that of its heartbeat"
            raise self._agent_refused("TLS", reason) from None
        except bounded_http.AddressRefused as why:
            raise self._agent_refused("connect", f"its address {why}") from None
        except http.client.HTTPException as why:
            raise ConnectionError(f"{type(why).__name__}: {why}") from None

    def _checked_answer(self, status: int, content: bytes) -> Any:
        try:
            document = bounded_http.json_value(content)
        except bounded_http.TooManyValues as why:
            raise self._agent_refused(f"HTTP {status}", f"its answer is {why}", status) from None
        except ValueError:
            document = None
        if status == HTTPStatus.OK:
            if document is None:  # an agent that dies while answering truncates its answer
                raise ConnectionError("the answer is truncated")
            return document
        said = document.get("faultstring") if isinstance(document, dict) else None
        # A foreign answer is not quoted, because it may be another service's secret.
        said = self._without_token(said)[:_SHORT] if isinstance(said, str) else "it gives no reason"
        if status == HTTPStatus.CONFLICT:
            raise errors.AgentBusy(node=self._task.node.uuid, reason=said)
        raise self._agent_refused(f"HTTP {status}", said, status)

    def _without_token(self, text: str) -> str:
        """Return a text without the token, which each request URL contains, and without secrets in
        other URLs, because the agent quotes those of images.
        """
        return _ADDRESS.sub(_masked_address, text.replace(self._agent.token, masking.MASK))

    def _read_result(self, what: str, reader: Callable[[object], T], document: object) -> T:
        try:
            return reader(document)
        except ValueError as why:
            raise self._agent_refused(what, str(why)) from None

    def _agent_refused(
        self, what: str, reason: str, status: int | None = None
    ) -> errors.AgentRefused:
        return errors.AgentRefused(
            node=self._task.node.uuid,
            address=self._agent.url,
            what=what,
            reason=self._without_token(reason),
            status=status,
            http_status=status,
        )

    def _agent_unreachable(self, why: Exception) -> errors.AgentUnreachable:
        deadline.SILENT.note(self._task.node.uuid, silent=True)
        reason = self._without_token(f"{self._agent.url}: {type(why).__name__}: {why}")
        return errors.AgentUnreachable(
            node=self._task.node.uuid,
            reason=reason,
            address=self._agent.url,
            heard_at=self._agent.heard_at.isoformat(),
        )


@functools.lru_cache(maxsize=512)
def _tls_context(pem: str, minimum: str | None, ciphers: str | None) -> ssl.SSLContext:
    context = bounded_http.pinned_tls_context(pem)
    bounded_http.limit_tls(context, minimum, ciphers)
    return context


def _masked_address(address: re.Match[str]) -> str:
    return masking.address(address[0])
