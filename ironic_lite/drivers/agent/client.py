"""The agent's own REST API: one machine, one certificate, bounded in time and size.

A request goes to the address of the machine's last believed heartbeat and to no other: nothing is
redirected, no proxy is asked, and the only certificates trusted are those which the agent gave
with its token. The token is an argument of the query, so addresses with it are never told.
"""

from __future__ import annotations

import http.client
import logging
import re
import ssl
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import orjson

from ironic_lite import config, errors, masking, texts
from ironic_lite.drivers import answers, base
from ironic_lite.drivers.agent import results
from ironic_lite.drivers.agent.results import Result, Status

LOG = logging.getLogger(__name__)
T = TypeVar("T")

LIMIT = 80 * 1024 * 1024
"""Bytes one answer may have. Most have some kilobytes, collected logs some megabytes; a step that
has ended comes back with its arguments, and a configuration drive may have 64 MiB."""
_ADDRESS = re.compile(r"https?://[^\s'\"<>]+", re.IGNORECASE)
_CHUNK = 256 * 1024
_PAUSE = 1.0  # seconds between two tries
_SHORT_SECONDS = 10.0  # for a question that will be asked again
_SHORT = 400  # characters of a foreign answer that are quoted
_TLS: Mapping[str, ssl.TLSVersion] = {
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}


_Answer = answers.bounded(lambda: LIMIT)


def tls_context(pem: str, minimum: str) -> ssl.SSLContext:
    """Return settings that trust these certificates and nothing else.

    :raises ssl.SSLError, TypeError: ``pem`` holds no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _TLS[minimum]
    # The agent signs its certificate itself, and does not call itself an authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=pem)
    return context


class Client:
    """Commands to the agent that runs in the machine of a task.

    Every method may raise ``errors.AgentUnreachable`` (no answer; retryable),
    ``errors.AgentRefused`` (an answer, and not the one wanted) and ``errors.Stopping``.
    """

    def __init__(self, task: base.Task) -> None:
        """Prepare to speak; nothing is sent yet.

        :raises errors.AgentUnreachable: no agent has sent a heartbeat since the ramdisk booted.
        :raises errors.AgentRefused: its certificate cannot be used, or there is none.
        """
        agent = task.agent
        if agent is None:
            reason = "it has sent no heartbeat since its ramdisk booted"
            raise errors.AgentUnreachable(node=task.node.uuid, reason=reason)
        self._task, self._agent = task, agent
        parts = urllib.parse.urlsplit(agent.url)
        self._address = (parts.hostname or "", parts.port)
        self._path = parts.path.rstrip("/")
        self._tls = self._pinned(agent) if parts.scheme == "https" else None

    def _pinned(self, agent: base.Agent) -> ssl.SSLContext:
        if not agent.verify_ca:
            raise self._refused("connect", "it has an address of https and gave no certificate")
        try:
            return tls_context(agent.verify_ca, config.CONF.agent.tls_minimum_version)
        except (ssl.SSLError, TypeError) as why:  # the latter for other letters than those of ASCII
            raise self._refused("connect", f"its certificate cannot be read: {why}") from None

    # -- questions ---------------------------------------------------------------------------

    def commands(self) -> list[Result]:
        """Return the commands the agent has been given since it started, oldest first."""
        document = self._tried("commands", lambda: self._send("GET", "/v1/commands/"))
        return self._read("commands", results.read_list, document)

    def result(self, command_id: str) -> Result | None:
        """Return what became of a command; None if the agent knows of none with this id.

        One try, and a short one: who asks this asks again soon, and an agent that hangs is to keep
        no worker from others.
        """
        path = f"/v1/commands/{urllib.parse.quote(command_id, safe='')}"
        try:
            document = self._send("GET", path, timeout=_SHORT_SECONDS)
        except errors.AgentRefused as why:
            if why.facts.get("status") == HTTPStatus.NOT_FOUND:
                return None
            raise
        except OSError as why:
            raise self._unreachable(why) from None
        return self._read("commands", results.read, document)

    # -- orders ------------------------------------------------------------------------------

    def start(
        self, name: str, params: Mapping[str, Any], *, before: Sequence[Result] | None = None
    ) -> Result:
        """Have a command begun, and return it as soon as it runs.

        A lost connection makes no second command of it: the list is looked at first.

        :param name: ``extension.command``.
        :param params: its arguments; a wrong name of one may break the agent until its next boot.
        :param before: the commands there were a moment ago, None to ask for them.
        :raises errors.AgentBusy: another command runs (retryable); nothing was begun.
        """
        known = self.commands() if before is None else before
        return self._order(name, params, wait=False, known=known)

    def call(
        self, name: str, params: Mapping[str, Any], *, timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Have a short command carried out, and return what it returns.

        :param timeout: seconds it may take, None for [agent]command_timeout.
        :raises errors.AgentBusy: another command runs (retryable); nothing was begun.
        :raises errors.AgentCommandFailed: it was carried out, and failed.
        :raises errors.AgentChanged: the agent has other hardware managers than were named.
        """
        found = self._order(name, params, wait=True, known=(), timeout=timeout)
        return self.value(found)

    def value(self, found: Result) -> Mapping[str, Any]:
        """Return the value of a command that has ended.

        :raises errors.AgentCommandFailed, errors.AgentChanged: as `call`.
        """
        if found.status is Status.SUCCEEDED:
            return found.value
        if found.status is Status.CHANGED:
            reason = texts.clean(self._plain(found.reason))
            raise errors.AgentChanged(reason=reason or "it does not say which")
        why = self._plain(found.reason) if found.status is Status.FAILED else "it has not ended"
        raise errors.AgentCommandFailed(
            node=self._task.node.uuid, command=found.name, type=found.kind, reason=why
        )

    def _order(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        wait: bool,
        known: Sequence[Result],
        timeout: float | None = None,
    ) -> Result:
        body = orjson.dumps({"name": name, "params": params})
        query = {"wait": "true" if wait else "false"}

        def post() -> Any:
            return self._send("POST", "/v1/commands/", query, body, timeout)

        if wait:  # these change nothing that doing it twice would harm
            return self._read(name, results.read, self._tried(name, post))
        try:
            return self._read(name, results.read, post())
        except OSError as why:
            LOG.info("Node %s: the agent was lost while %s began", self._task.node.uuid, name)
            begun = results.unknown(known, self.commands(), name.rpartition(".")[2])
            if begun is not None:
                return begun
            raise self._unreachable(why) from None

    # -- the wire ----------------------------------------------------------------------------

    def _tried(self, what: str, send: Callable[[], T]) -> T:
        """Send, and try again what found nobody there; a refusal stays one."""
        attempts = config.CONF.agent.max_command_attempts
        for attempt in range(1, attempts + 1):
            try:
                return send()
            except OSError as why:
                if attempt == attempts:
                    raise self._unreachable(why) from None
                LOG.info("Node %s: its agent: %s: tried again", self._task.node.uuid, what)
                self._task.pause(_PAUSE)
        raise AssertionError("[agent]max_command_attempts is 1 or more")

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Return the JSON of an answer.

        :raises OSError: there was none, or not all of it in time.
        """
        asked = urllib.parse.urlencode({**(query or {}), "agent_token": self._agent.token})
        connection = self._connection(timeout or config.CONF.agent.command_timeout)
        headers = {"Accept": "application/json", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, f"{self._path}{path}?{asked}", body=body, headers=headers)
            answer = connection.getresponse()
            content = _whole(answer)
        except ssl.SSLCertVerificationError as why:
            reason = f"its certificate is not the one its heartbeat gave: {why.verify_message}"
            raise self._refused("TLS", reason) from None
        except http.client.HTTPException as why:
            raise ConnectionError(f"{type(why).__name__}: {why}") from None
        finally:
            connection.close()
        return self._judged(answer.status, content)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._address
        connection: http.client.HTTPConnection
        if self._tls is None:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        connection.response_class = _Answer
        return connection

    def _judged(self, status: int, content: bytes) -> Any:
        try:
            document = orjson.loads(content)
        except orjson.JSONDecodeError:
            document = None
        if status == HTTPStatus.OK:
            if document is None:  # an agent that dies in the middle of an answer cuts it off
                raise ConnectionError("the answer is not whole")
            return document
        said = document.get("faultstring") if isinstance(document, dict) else None
        said = said if isinstance(said, str) else content[:_SHORT].decode("utf-8", "replace")
        said = self._plain(said)[:_SHORT]
        if status == HTTPStatus.CONFLICT:
            raise errors.AgentBusy(node=self._task.node.uuid, reason=said)
        raise self._refused(f"HTTP {status}", said, status)

    def _plain(self, text: str) -> str:
        """Return a text without the token, which is part of each address that is asked, and without
        what is secret in other addresses: the agent quotes those of images.
        """
        return _ADDRESS.sub(_shown, text.replace(self._agent.token, masking.MASK))

    def _read(self, what: str, reader: Callable[[object], T], document: object) -> T:
        try:
            return reader(document)
        except ValueError as why:
            raise self._refused(what, str(why)) from None

    def _refused(self, what: str, reason: str, status: int | None = None) -> errors.AgentRefused:
        return errors.AgentRefused(
            node=self._task.node.uuid,
            address=self._agent.url,
            what=what,
            reason=self._plain(reason),
            status=status,
        )

    def _unreachable(self, why: Exception) -> errors.AgentUnreachable:
        reason = self._plain(f"{self._agent.url}: {type(why).__name__}: {why}")
        return errors.AgentUnreachable(node=self._task.node.uuid, reason=reason)


def _shown(address: re.Match[str]) -> str:
    return masking.address(address[0])


def _whole(answer: http.client.HTTPResponse) -> bytes:
    body = bytearray()
    while part := answer.read(_CHUNK):
        body += part
    return bytes(body)
