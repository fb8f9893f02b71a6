"""Requests to the HTTP API, by the client of python-ironicclient, and their repetition."""

from __future__ import annotations

import logging
import re
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ironicclient import exc
from ironicclient.common.http import SessionClient

Json = dict[str, Any]
"""A JSON object."""

JsonView = Mapping[str, Any]
"""A JSON object that is only read."""

T = TypeVar("T")

POLL_SECONDS = 50
"""Longest wait of one request, below the idle time-out of most proxies."""
_REQUEST_SECONDS = POLL_SECONDS + 60
PAGE = 1000
"""Rows of one request for a list that is read whole."""
_PAUSE = 1.0
_TRIES = 15
"""Attempts to send a change; with their pauses they outlast an answer that is under way."""
_REPEAT_SECONDS = 5.0
"""Seconds before a request is repeated after a fault of the service or of the network."""
GATEWAY_TIMEOUT = 504
_UNAVAILABLE = 503
_AGENT = "ironic-lite-cli"
_RETRY_AFTER = "X-Retry-After"
"""The header Retry-After of an answer, under a name that python-ironicclient does not read."""
_NODE = r"/v1/nodes/([^/\s]+)"
COMMANDS: Mapping[str, str] = {
    # a request that texts of the service name: the command for it
    rf"DELETE {_NODE}/holds/([\w-]+)": r"baremetal node hold delete \1 \2",
    rf"DELETE {_NODE}/maintenance": r"baremetal node maintenance unset \1",
    rf"GET {_NODE}/erasures": r"baremetal erasure list --node \1",
    rf"GET {_NODE}/runs\b(?!/)": r"baremetal node run list \1",
    rf"PUT {_NODE}/data_state": r"baremetal node data state set \1",
    rf"PUT {_NODE}/runs/(\w[\w-]*)/stop": r"baremetal node run stop \1",
    rf"PUT {_NODE}/traits": r"baremetal node add trait \1",
    r"GET /v1/batches/([\w-]+)/nodes\?result=([\w,]+)": (
        r"baremetal batch node list \1 --result \2"
    ),
    r"GET /v1/conductors": "baremetal conductor list",
    r"POST /v1/ports": "baremetal node port create",
    r"\?plan=true": "--plan",
    r'"unfit": "leave out"': "--leave-out",
    r"\bexpect_fit\b": "--expect-fit",
}


class _Session:
    """A session that keeps Retry-After of refusals, which python-ironicclient cannot take."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def request(self, url: str, method: str, **more: Any) -> Any:
        answer = self._session.request(url, method, **{**more, "user_agent": _AGENT})
        seconds = answer.headers.pop("Retry-After", None)
        if seconds is not None:
            answer.headers[_RETRY_AFTER] = seconds
        return answer


def _is_said_once(record: logging.LogRecord) -> bool:
    """Leave out the refusals that python-ironicclient logs, because the command prints them."""
    return record.levelno < logging.ERROR


class Api:
    """The HTTP API by the client of python-ironicclient.

    :param app: of cliff, with a client manager.
    """

    def __init__(self, app: Any) -> None:
        self._client: Any = app.client_manager.baremetal.http_client
        session: Any = getattr(self._client, "session", None)
        if isinstance(self._client, SessionClient) and not isinstance(session, _Session):
            session = _Session(session)
            self._client.session = session
        logging.getLogger("ironicclient.common.http").addFilter(_is_said_once)

    def get(self, *words: str, **query: object) -> Any:
        """Return the body of ``GET /v1/words...``; arguments that are None are left out.

        :raises exc.HTTPException: the service refuses the request.
        """
        _, body = self.answer(*words, **query)
        return body

    def text(self, *words: str, **query: object) -> str:
        """Return the body of an answer that is text; as `get`."""
        answer, _ = self.answer(*words, **query)
        return str(answer.text)

    def content(self, *words: str) -> bytes:
        """Return the exact bytes of an answer; as `get`."""
        answer, _ = self.answer(*words)
        return bytes(answer.content)

    def answer(self, *words: str, **query: object) -> tuple[Any, Any]:
        """Return an answer and its body; as `get`."""
        return self.send_once("GET", url_of(*words, **query))

    def send_once(self, method: str, url: str, **more: Any) -> tuple[Any, Any]:
        """Return the answer to one request, and its body; refusals name commands."""
        repeats = getattr(self._client, "conflict_max_retries", None)
        if method != "GET":
            # python-ironicclient would repeat every 409, also that of a hold, which no time ends.
            self._client.conflict_max_retries = 0
        try:
            found: tuple[Any, Any] = self._client.json_request(
                method, url, timeout=_REQUEST_SECONDS, **more
            )
        except Exception as why:
            why.args = tuple(in_commands(one) if isinstance(one, str) else one for one in why.args)
            raise
        finally:
            self._client.conflict_max_retries = repeats
        return found

    def run(self, node: str, run: str) -> Json:
        """Return one run of a node, with its steps."""
        found: Json = self.get("nodes", node, "runs", run)
        return found

    def retry(self, node: str, wanted: Json) -> str | None:
        """Retry the failed run of a node; return the UUID of the new run, None without a Link.

        A lost request is repeated with its Idempotency-Key, so it opens one run.
        """
        body = {"target": "retry", "retry": wanted}
        answer, _ = self._repeat("PUT", url_of("nodes", node, "states", "provision"), body)
        href = str(answer.headers.get("Link", "")).partition(">")[0]
        return href.rpartition("/")[2] or None

    def batch_nodes(self, batch: str, result: str | None) -> Iterator[Json]:
        """Yield the nodes of a batch with these results, page by page."""
        return self.nodes("batches", batch, "nodes", result=result)

    def nodes(self, *words: str, **query: object) -> Iterator[Json]:
        """Yield the nodes of a list, page by page."""
        marker: str | None = None
        while True:
            page = self.get(*words, **query, limit=PAGE, marker=marker)["nodes"]
            yield from page
            if len(page) < PAGE:
                return
            marker = page[-1]["uuid"]

    def _repeat(self, method: str, url: str, body: Any) -> tuple[Any, Any]:
        """Return an answer and its body; repeat under one key while a repetition may help."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        more = {} if body is None else {"body": body}
        for left in reversed(range(_TRIES)):
            try:
                return self.send_once(method, url, headers=dict(headers), **more)
            except Exception as why:
                if not left or not (is_passing(why) or retry_after(why)):
                    raise
                time.sleep(min(retry_after(why) or _REPEAT_SECONDS, _REPEAT_SECONDS))
        raise AssertionError(url)

    def change(self, method: str, *words: str, body: Any = None, **query: object) -> Any:
        """Send a request that changes something; return its body; ``query`` as for `get`."""
        return self._repeat(method, url_of(*words, **query), body)[1]

    def events(self, since: str, wait: int, **query: object) -> Json:
        """Return the events after a cursor; wait for the first one."""
        found: Json = self.get("events", since=since, wait=wait, **query)
        return found


def url_of(*words: str, **query: object) -> str:
    """Return the URL of ``/v1/words...?query``; arguments that are None are left out."""
    path = "/".join(urllib.parse.quote(word, safe="") for word in words)
    given = {name: value for name, value in query.items() if value is not None}
    return f"/v1/{path}?{urllib.parse.urlencode(given, safe=',')}".rstrip("?")


def in_commands(text: str) -> str:
    """Return a text of the service with commands in place of HTTP requests."""
    for request, command in COMMANDS.items():
        text = re.sub(request, command, text)
    return text


def retry_after(why: Exception) -> float:
    """Return the seconds after which the service asks to repeat a refused request, else 0."""
    headers = getattr(getattr(why, "response", None), "headers", {})
    seconds = str(headers.get(_RETRY_AFTER, ""))
    return float(seconds) if seconds.isdecimal() else 0.0


def status_of(why: Exception) -> int:
    """Return the HTTP status of a refusal; 0 if there was no answer."""
    return int(getattr(why, "http_status", 0) or 0)


def is_passing(why: Exception) -> bool:
    """Return whether a request may succeed if it is repeated."""
    lost = isinstance(why, exc.ConnectionRefused | exc.CommunicationError)
    return lost or status_of(why) in (_UNAVAILABLE, GATEWAY_TIMEOUT)


def repeat_until(ask: Callable[[], T], left: Callable[[], float]) -> T:
    """Return the answer of ``ask``; repeat it while the service or the network is away.

    :param left: returns the seconds that are left; the last fault is raised at their end.
    """
    while True:
        try:
            return ask()
        except Exception as why:
            if not is_passing(why) or left() <= 0:
                raise
            pause_after(why)


def no_end() -> float:
    """Return the seconds left of a wait without an end."""
    return float("inf")


def repeated(ask: Callable[[], T]) -> T:
    """Return the answer of ``ask``; repeat it as long as the service or the network is away."""
    return repeat_until(ask, no_end)


def pause_after(why: Exception) -> None:
    """Pause before a repetition, unless the service has waited already."""
    if status_of(why) != GATEWAY_TIMEOUT:
        time.sleep(_PAUSE)
