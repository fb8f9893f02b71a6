"""``ironic-lite-status compare``, ``release`` and ``observe``.

``compare`` reads Ironic and this service by GET alone. The answers of Ironic go to a file first, an
object a line, also without ``--save``. The objects of this service are then compared with its lines
as they arrive. So memory contains a page of one service, and the place of each line.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import datetime
import http.client
import json
import math
import os
import pathlib
import ssl
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping
from http import HTTPStatus
from typing import IO, Any, NamedTuple

import orjson

from ironic_lite import errors
from ironic_lite.core import bounded_http, clock, masking
from ironic_lite.core.json_types import Json
from ironic_lite.domain import versions
from ironic_lite.domain.holds import OBSERVE
from ironic_lite.features import StatusCommand
from ironic_lite.features.move_in import comparison, differences
from ironic_lite.features.move_in.comparison import DETAILS, LISTINGS, ObjectList
from ironic_lite.images import download

_NAME = "compare"
_ABOUT = "compare all that Ironic and this service show, by GET alone"
_STATUS = "Exit status 0: no unexpected difference; 1: differences; 2: a service did not answer"
DEEP = 20
OLDEST = 90
"""The newest microversion of Ironic 24.1, the oldest release that can be moved."""
UNREAD = 2
_LIMITS = bounded_http.Limits(connect=10.0, whole=120.0, size=32 * 1024 * 1024, last=180.0)
_OF_BMC = dataclasses.replace(_LIMITS, whole=30.0, last=40.0)
"""Limits of requests for which the service asks a BMC."""
_MOST_SILENT = 5
"""Silent BMCs after which a service is asked for no further one."""
_PAGE = 200
_MOST_OBJECTS = 2_000_000
"""Objects of a list; more are of a service that invents them."""
_FORMAT = "ironic-lite compare 1"
_LOGIN = "Set IRONIC_USERNAME and IRONIC_PASSWORD, or IRONIC_TOKEN, in the environment."
_OUR_LOGIN = "Set OS_USERNAME and OS_PASSWORD, or OS_TOKEN, in the environment."


class NoAnswers(Exception):
    """A service or a file does not give what is to be compared; the text has the reason."""


class LateAnswer(NoAnswers):
    """A service has not answered in time, though it has taken the request."""


class Api(NamedTuple):
    """An API: its name in messages, URL, headers of its login, TLS settings, advice for 401."""

    name: str
    url: str
    login: Mapping[str, str]
    tls: Callable[[], ssl.SSLContext]
    advice: str


class ProgressLine:
    """A line on a terminal, written at most once a second; nothing is written elsewhere."""

    def __init__(self) -> None:
        self._next = -math.inf if sys.stderr.isatty() else math.inf

    def show(self, text: str) -> None:
        """Replace the line."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 1
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line, before others are written."""
        if math.isfinite(self._next):
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class ApiReader:
    """Reads lists and objects of a service."""

    def __init__(self, service: Api, progress: ProgressLine | None = None) -> None:
        self._service = service
        self._progress = progress
        self._requests = 0
        self._silent = 0
        self.shown = str(masking.mask(service.url))
        parts = urllib.parse.urlsplit(service.url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise self._failure("has no URL such as https://ironic.example.org:6385")
        if "@" in parts.netloc:
            raise self._failure(f"has a login in its URL, which is not used. {service.advice}")
        self._place = (parts.hostname, port)
        self._tls = service.tls() if parts.scheme == "https" else None
        self._base = parts.path.rstrip("/").removesuffix("/v1")
        self.version = ""

    def _failure(self, text: str) -> NoAnswers:
        return NoAnswers(f"{self._service.name} at {self.shown} {text}")

    def newest(self) -> int:
        """Return the newest microversion of the service."""
        status, _, headers = self._get("")
        found = headers.get(versions.MAX_HEADER, "")
        major, _, minor = found.partition(".")
        if status != HTTPStatus.OK or major != str(versions.MAJOR) or not minor.isdecimal():
            raise self._failure(
                f"answers GET /v1/ with {status} and no {versions.MAX_HEADER}: it is no Ironic API"
            )
        return int(minor[:6])

    def pages(self, listing: ObjectList) -> Iterator[Json]:
        """Yield the objects of a list of the service, by their names."""
        size, marker, count = _PAGE, "", 0
        while True:
            path = listing.path
            if listing.resource != differences.DRIVERS:  # which has no pages
                mark = {"marker": marker} if marker else {}
                words = urllib.parse.urlencode({"limit": size, **mark})
                path += f"{'&' if '?' in path else '?'}{words}"
            try:
                body = self._document(path)
            except (bounded_http.AnswerTooLarge, bounded_http.TooManyValues) as why:
                if size == 1 or listing.resource == differences.DRIVERS:
                    raise self._failure(f"answers GET /v1/{path}: {why}") from None
                size //= 4
                size = max(size, 1)
                continue
            found = comparison.objects(listing, body)
            if found is None:
                raise self._failure(f"answers GET /v1/{path} without a list {listing.key}")
            if found:
                yield found
            count += len(found)
            if not found or "next" not in body:
                return
            last, marker = marker, list(found)[-1]
            if marker == last or count > _MOST_OBJECTS:
                raise self._failure(f"does not end its list of {listing.resource}")

    def details(self, listing: ObjectList, node: str) -> Json:
        """Return the objects of a node; a refusal is an object, too, because it may differ."""
        path = place = f"nodes/{urllib.parse.quote(node, safe='')}/{listing.path}"
        found: list[object] = []
        marker = None
        while True:
            try:
                if listing.resource == differences.BOOT_DEVICE:
                    status, text = self._read_boot_device(path)
                else:
                    status, text, _ = self._get(path)
            except (bounded_http.AnswerTooLarge, bounded_http.TooManyValues) as why:
                raise self._failure(f"answers GET /v1/{path}: {why}") from None
            if status != HTTPStatus.OK:
                return {"": f"status {status}"}
            body = self._object(path, text)
            page = body.get(listing.key)
            if isinstance(page, list):
                found += page
                body[listing.key] = found
            last, marker = marker, _next_marker(body) if page else None
            if marker is None:
                whole = comparison.objects(listing, body)
                return {"": "status 200 without a list"} if whole is None else whole
            if marker == last or len(found) > _MOST_OBJECTS:
                raise self._failure(f"does not end its list of {listing.resource}")
            words = urllib.parse.urlencode({"marker": marker})
            path = f"{place}{'&' if '?' in place else '?'}{words}"

    def moves(self) -> differences.MoveNotes:
        """Return what this service has recorded of its imports; nothing if it shows none."""
        status, text, _ = self._get("imports")
        if status != HTTPStatus.OK:
            return differences.MoveNotes()
        try:
            uuids = [str(one["uuid"]) for one in self._object("imports", text)["imports"]]
            places = (f"imports/{urllib.parse.quote(one, safe='')}" for one in uuids)
            return differences.MoveNotes.read([self._document(place) for place in places])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._failure("answers GET /v1/imports in another form") from None

    def _document(self, path: str) -> Json:
        status, body, _ = self._get(path)
        if status == HTTPStatus.OK:
            return self._object(path, body)
        advice = f" {self._service.advice}" if status == HTTPStatus.FORBIDDEN else ""
        raise self._failure(f"answers GET /v1/{path} with {status}.{advice}")

    def _object(self, path: str, body: bytes) -> Json:
        try:
            found = bounded_http.json_value(body)
        except bounded_http.TooManyValues:
            raise
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._failure(f"answers /v1/{path} with something else than a JSON object")
        return found

    def change(self, path: str, body: Json) -> Json:
        """Send a POST, and return its answer; a refusal is `NoAnswers` with its reason."""
        try:
            status, text, _ = self._send("POST", path, orjson.dumps(body))
            found = self._object(path, text)
        except (bounded_http.AnswerTooLarge, bounded_http.TooManyValues) as why:
            raise self._failure(f"answers POST /v1/{path}: {why}") from None
        if status == HTTPStatus.OK:
            return found
        message: object = found.get("error_message")
        with contextlib.suppress(ValueError):
            message = json.loads(message) if isinstance(message, str) else message
        reason = message.get("faultstring") if isinstance(message, dict) else "no reason is given"
        raise self._failure(f"refuses POST /v1/{path} ({status}): {reason}")

    def _get(self, path: str) -> tuple[int, bytes, http.client.HTTPMessage]:
        return self._send("GET", path)

    def _read_boot_device(self, path: str) -> tuple[int, bytes]:
        """Return status and body; a service whose BMCs are silent is not asked for ever."""
        if self._silent < _MOST_SILENT:
            try:
                return self._send("GET", path, limits=_OF_BMC)[:2]
            except LateAnswer:
                self._silent += 1
        return HTTPStatus.GATEWAY_TIMEOUT, b""

    def _send(
        self,
        method: str,
        path: str,
        sent: bytes | None = None,
        limits: bounded_http.Limits = _LIMITS,
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        self._requests += 1
        if self._progress is not None:
            name, shown = self._service.name, path.partition("?")[0]
            self._progress.show(f"{name}: {self._requests} requests, now /v1/{shown}")
        headers = {"Accept": "application/json", "Connection": "close", **self._service.login}
        if self.version:
            headers[versions.HEADER] = self.version
        if sent is not None:
            headers["Content-Type"] = "application/json"
        made = bounded_http.Connection(*self._place, limits=limits, tls=self._tls)
        try:
            with contextlib.closing(made):
                answer = made.exchange(method, f"{self._base}/v1/{path}", headers, sent)
                body = bounded_http.content(answer, limits.size)
        except bounded_http.AnswerTooLarge:
            raise
        except (OSError, http.client.HTTPException, ValueError) as why:
            reason = getattr(why, "strerror", None) or str(why) or type(why).__name__
            failure = self._failure(f"does not answer {method} /v1/{path}: {reason}")
            connected = not isinstance(why, bounded_http.ConnectTimeout)
            late = isinstance(why, TimeoutError) and connected
            raise (LateAnswer(str(failure)) if late else failure) from None
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise self._failure(f"refuses the login (401). {self._service.advice}")
        return answer.status, body, answer.headers


def _next_marker(body: Json) -> str | None:
    """Return the marker in the link to the next page; Ironic's link lacks other words."""
    query = urllib.parse.urlsplit(str(body.get("next", ""))).query
    return next(iter(urllib.parse.parse_qs(query).get("marker", ())), None)


# -- the file with Ironic's answers -------------------------------------------------------------


def save(reader: ApiReader, version: int, deep: int | None, file: IO[bytes]) -> None:
    """Write the masked answers of a service, as lines of JSON.

    :param deep: nodes of each provision state whose details are read; None: all.
    """
    reader.version = f"{versions.MAJOR}.{version}"
    at = clock.now().replace(tzinfo=datetime.UTC).isoformat()
    _write(file, {"format": _FORMAT, "url": reader.shown, "version": version, "at": at})
    states: collections.Counter[str] = collections.Counter()
    chosen, drivers = [], set()
    count = 0
    for listing in _listings(version):
        for page in reader.pages(listing):
            for name, one in page.items():
                known = one if isinstance(one, dict) else {}
                if listing.resource == differences.NODES:
                    state = str(known.get("provision_state"))
                    states[state] += 1
                    drivers.add(known.get("driver"))
                    if deep is None or states[state] <= deep:
                        chosen.append(name)
                elif listing.resource == differences.DRIVERS and name not in drivers:
                    continue
                _write(file, {"of": listing.resource, "name": name, "objects": {"": one}})
                count += 1
    for name in chosen:
        for listing in DETAILS:
            found = reader.details(listing, name)
            _write(file, {"of": listing.resource, "name": name, "objects": found})
            count += 1
    _write(file, {"lines": count})
    file.flush()


def _listings(version: int) -> list[ObjectList]:
    return [one for one in LISTINGS if one.since <= version]


def _write(file: IO[bytes], line: Json) -> None:
    file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


class SavedAnswers:
    """The answers in a file of `save`.

    :raises NoAnswers: it is another file, or it is cut off.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._places: dict[str, dict[str, int]] = collections.defaultdict(dict)
        file.seek(0)
        head = self._line()
        found = head.get("version")
        if head.get("format") != _FORMAT or not isinstance(found, int):
            raise NoAnswers(f"{name} is no file that --save has written")
        self.version: int = found
        self.url, self.at = str(head.get("url")), str(head.get("at"))
        count = 0
        while "lines" not in (line := self._line()):
            self._places[str(line.get("of"))][str(line.get("name"))] = self._begin
            count += 1
        if line["lines"] != count:
            raise NoAnswers(f"{name} lacks lines; save it again")

    def _line(self) -> Json:
        self._begin = self._file.tell()
        text = self._file.readline(2 * _LIMITS.size)
        try:
            found = bounded_http.json_value(text) if text.endswith(b"\n") else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise NoAnswers(f"{self._name} is cut off or no file of --save at byte {self._begin}")
        return found

    def names(self, resource: str) -> list[str]:
        """Return the names that have not been taken."""
        return list(self._places.get(resource, ()))

    def take(self, resource: str, name: str) -> Json:
        """Return the masked objects of a line, once; none if there is no such line."""
        place = self._places[resource].pop(name, None)
        if place is None:
            return {}
        self._file.seek(place)
        found = self._line().get("objects")
        known = found if isinstance(found, dict) else {}
        return {key: comparison.masked(resource, one) for key, one in known.items()}


# -- the command --------------------------------------------------------------------------------


def compare(saved: SavedAnswers, reader: ApiReader) -> comparison.ComparisonReport:
    """Compare this service with the answers of Ironic."""
    reader.version = f"{versions.MAJOR}.{saved.version}"
    report = comparison.ComparisonReport(reader.moves())
    absent: set[str] = set()
    drivers = set(saved.names(differences.DRIVERS))
    for listing in _listings(saved.version):
        for page in reader.pages(listing):
            for name, one in page.items():
                if listing.resource == differences.DRIVERS and name not in drivers:
                    continue
                here = {"": one}
                report.compare(listing.resource, name, saved.take(listing.resource, name), here)
        for name in saved.names(listing.resource):
            there = saved.take(listing.resource, name)
            report.compare(listing.resource, name, there, {})
            if listing.resource == differences.NODES:
                absent.add(name)
    _compare_details(saved, reader, report, absent)
    return report


def _compare_details(
    saved: SavedAnswers,
    reader: ApiReader,
    report: comparison.ComparisonReport,
    absent: Collection[str],
) -> None:
    for listing in DETAILS:
        for name in saved.names(listing.resource):
            there = saved.take(listing.resource, name)
            if name not in absent:
                here = reader.details(listing, name)
                report.compare(listing.resource, name, there, here)


def _add_compare_arguments(parser: Any) -> None:
    parser.add_argument(
        "--ironic", metavar="URL|FILE", required=True, help="Ironic's API, or a file of --save"
    )
    parser.add_argument(
        "--save", metavar="FILE", help="only store the answers of Ironic, with secrets masked"
    )
    parser.add_argument(
        "--deep",
        metavar="N|all",
        type=_deep,
        default=DEEP,
        help=f"nodes of each state whose BIOS settings, history etc. are read (default: {DEEP})",
    )
    parser.add_argument(
        "--version", metavar="V", type=_version, help="microversion (default: the newest of both)"
    )
    _add_common_arguments(parser)


def _add_common_arguments(parser: Any) -> None:
    parser.add_argument("--url", metavar="URL", help="of this service (default: as configured)")
    parser.add_argument(
        "-f", dest="form", choices=("text", "json"), default="text", help="form of the output"
    )


def _deep(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or len(text) > len(str(_MOST_OBJECTS)):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor all")
    return int(text)


def _version(text: str) -> int:
    major, _, minor = text.partition(".")
    known = major == str(versions.MAJOR) and minor.isdecimal()
    if not known or not OLDEST <= int(minor[:6]) <= versions.LAST:
        allowed = f"{versions.MAJOR}.{OLDEST} to {versions.MAX_VERSION}"
        raise argparse.ArgumentTypeError(f"{text!r} is not in {allowed}")
    return int(minor[:6])


def _run_compare(
    asked: Any, url: str, login: Mapping[str, str], trusted: Callable[[], ssl.SSLContext]
) -> int:
    """Compare, print, and return the exit status; parameters as of `StatusCommand`."""
    ours = Api("this service", url, login, trusted, _OUR_LOGIN)
    progress = ProgressLine()
    try:
        with contextlib.ExitStack() as opened:
            opened.callback(progress.clear)
            if asked.ironic.startswith(("http://", "https://")):
                api = Api("Ironic", asked.ironic, _login(), _trusted, _LOGIN)
                theirs = ApiReader(api, progress)
                if asked.save:
                    return _save(theirs, asked, progress)
                here = ApiReader(ours, progress)
                newest = min(theirs.newest(), here.newest(), asked.version or versions.LAST)
                file = opened.enter_context(tempfile.TemporaryFile())
                save(theirs, _allowed(newest), asked.deep, file)
                saved = SavedAnswers(file, "the temporary file")
            elif asked.save:
                raise NoAnswers("--save stores the answers of an API: give its URL by --ironic")
            else:
                saved = SavedAnswers(opened.enter_context(open(asked.ironic, "rb")), asked.ironic)
                here = ApiReader(ours, progress)
                _check_version(saved, here, asked.version)
            document = compare(saved, here).document()
    except (NoAnswers, errors.Error, OSError, RecursionError) as why:
        return _refuse(_NAME, asked.form, why)
    version = f"{versions.MAJOR}.{saved.version}"
    document = {
        **{"there": saved.url, "here": here.shown, "at": saved.at, "version": version},
        **document,
    }
    if asked.form == "json":
        print(json.dumps(document, indent=2))
    else:
        print(f"Ironic at {saved.url}, read {saved.at}, and {here.shown}; API {version}")
        print("\n".join(comparison.lines(document)))
    return int(document["exit"])


def _save(theirs: ApiReader, asked: Any, progress: ProgressLine) -> int:
    version = _allowed(min(theirs.newest(), asked.version or versions.LAST))
    path = pathlib.Path(asked.save)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with open(number, "wb") as file:
            save(theirs, version, asked.deep, file)
            os.fsync(number)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    progress.clear()
    print(f"The answers of Ironic at {theirs.shown} are in {path}.")
    return 0


def _allowed(version: int) -> int:
    if version < OLDEST:
        raise NoAnswers(
            f"one of the services has API {versions.MAJOR}.{version} at most, and Ironic 24.1 has "
            f"{versions.MAJOR}.{OLDEST}. Upgrade Ironic to 24.1 or newer first"
        )
    return version


def _check_version(saved: SavedAnswers, here: ApiReader, asked: int | None) -> None:
    if saved.version > here.newest() or asked not in (None, saved.version):
        raise NoAnswers(
            f"the file has answers of API {versions.MAJOR}.{saved.version}; compare it at that "
            "version, or save it again with another --version"
        )


def _refuse(name: str, form: str, why: BaseException) -> int:
    if isinstance(why, RecursionError):
        text = "an answer is nested too deeply"
    elif isinstance(why, OSError):
        text = f"{why.filename or 'the temporary file'}: {why.strerror or why}"
    else:
        text = str(why)
    text = " ".join(text.split())
    if form == "json":
        print(json.dumps({"error": text, "exit": UNREAD}, indent=2))
    else:
        print(f"{name}: {text}", file=sys.stderr)
    return UNREAD


def _trusted() -> ssl.SSLContext:
    return download.trusted_tls(os.environ.get("OS_CACERT", "True"))


def _login() -> dict[str, str]:
    token, user = os.environ.get("IRONIC_TOKEN"), os.environ.get("IRONIC_USERNAME")
    if token:
        return {"X-Auth-Token": token}
    if user:
        password = os.environ.get("IRONIC_PASSWORD", "")
        return {"Authorization": bounded_http.basic_login(user, password)}
    return {}


# -- nodes that are only observed ------------------------------------------------------------------

_RELEASE, _OBSERVE = "release", "observe"
_AT_ONCE = 1000
"""Nodes that one request names."""


class _Totals(NamedTuple):
    """Numbers of nodes whose holds were changed or left, and nodes that are left."""

    done: int
    left: int
    nodes: list[Json]


def _add_node_arguments(parser: Any) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("nodes", nargs="*", metavar="NODE", default=[], help="name or UUID")
    which.add_argument("--group", metavar="NAME", help="nodes of this conductor group")
    which.add_argument("--all", action="store_true", help="all nodes")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="text for other operators")
    _add_common_arguments(parser)


def _add_release_arguments(parser: Any) -> None:
    _add_node_arguments(parser)
    about = "also nodes whose BMC has not answered yet"
    parser.add_argument("--unread", action="store_true", help=about)


def _selections(asked: Any) -> Iterator[Json]:
    """Yield the nodes that the command names, as requests name them."""
    if asked.all:
        yield {"all": True}
    elif asked.group is not None:
        yield {"conductor_group": asked.group}
    names = list(dict.fromkeys(asked.nodes))
    for first in range(0, len(names), _AT_ONCE):
        yield {"nodes": names[first : first + _AT_ONCE]}


def _change_all(reader: ApiReader, path: str, body: Json, key: str, selection: Json) -> _Totals:
    """Repeat a request until all its nodes are done, or one changes nothing."""
    count = 0
    while True:
        found = reader.change(path, {"kind": OBSERVE, **selection, **body})
        done, left, nodes = found.get(key), found.get("left"), found.get("nodes", [])
        if not (isinstance(done, int) and isinstance(left, int) and _are_objects(nodes)):
            raise NoAnswers(f"{reader.shown} answers POST /v1/{path} without {key}, left and nodes")
        count += done
        if not found.get("more") or not done:
            return _Totals(count, left, nodes)


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _run_on_nodes(
    asked: Any, url: str, login: Mapping[str, str], trusted: Callable[[], ssl.SSLContext]
) -> int:
    """Release or observe nodes, print those that are left; parameters as of `StatusCommand`."""
    path, key, body = "holds", "held", {"reason": asked.reason}
    if asked.name == _RELEASE:
        path, key, body = "holds/end", "ended", {**body, "unread": asked.unread}
    try:
        reader = ApiReader(Api("this service", url, login, trusted, _OUR_LOGIN))
        parts = [_change_all(reader, path, body, key, one) for one in _selections(asked)]
    except (NoAnswers, errors.Error) as why:
        return _refuse(asked.name, asked.form, why)
    done, left = (sum(numbers) for numbers in zip(*(part[:2] for part in parts), strict=True))
    named = [node for part in parts for node in part.nodes]
    if asked.form == "json":
        print(
            json.dumps({key: done, "left": left, "nodes": named, "exit": int(left > 0)}, indent=2)
        )
        return int(left > 0)
    for node in named:
        print(f"{node.get('name') or node.get('uuid')}: {node.get('code')}: {node.get('text')}")
    if left > len(named):
        print(f"... and {left - len(named)} more")
    words = "released" if key == "ended" else "observed now"
    print(f"{done} nodes are {words}" + (f", {left} are left." if left else "."))
    return int(left > 0)


COMMANDS: tuple[StatusCommand, ...] = (
    StatusCommand(_NAME, _ABOUT, f"{_ABOUT}. {_STATUS}", _add_compare_arguments, _run_compare),
    StatusCommand(
        _RELEASE,
        "release nodes that are only observed",
        "Release nodes that are only observed, 1 000 by a transaction. Exit status 0: all are "
        "released; 1: nodes are left, by name; 2: refused, or no answer. Repeat it after a kill.",
        _add_release_arguments,
        _run_on_nodes,
    ),
    StatusCommand(
        _OBSERVE,
        "only observe nodes from now on",
        "Only observe nodes from now on, 1 000 by a transaction. Work under way goes on. Exit "
        "status 0: all are observed; 2: refused, or no answer. Repeat it after a kill.",
        _add_node_arguments,
        _run_on_nodes,
    ),
)
