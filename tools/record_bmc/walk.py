"""Reading of all documents of a BMC, by GET alone and within limits."""

from __future__ import annotations

import collections
import contextlib
import json
import lzma
import re
import time
from collections.abc import Callable, Iterator, Mapping

from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.drivers.redfish.bmc import connection, faults, info, resources, transport
from tools.record_bmc import anonymize

LEFT_OUT: Mapping[str, str] = {
    "schemas": r"/JsonSchemas|/SchemaStore|/(?i:schemas)/(?!registries)|/\$metadata|/odata$|\.xml$",
    "log entries": r"/LogServices/[^/]+/|/Dumps?(/|$)|/LogEntries(/|$)",
    "metrics and sensors": r"/TelemetryService(/|$)|Metrics(/|$)|/Sensors/|/Controls/",
    "users, sessions and keys": (
        r"/Accounts(/|$)|/Sessions/|/Certificates?(/|$)|/CertificateService(/|$)|/Keys?(/|$)"
        r"|/SecureBootDatabases/|/Subscriptions/|/LDAP|Kerberos|/KeyService"
    ),
    "tasks and jobs": r"/Tasks/|/Jobs/|/TaskMonitors/",
    "other languages": r"/(ja|zh|ko)/",
    "documents of vendors": r"/Oem(/|$)|/Dell[A-Z]|/Hpe[A-Z]|ComponentIntegrity(/|$)|/Assembly$"
    # Dell lists the users and the place of a BMC there, under names such as Users.3.UserName.
    r"|/Attributes$",
}
"""Patterns of paths that no operation of this service reads, or that may hold secrets."""

_ATTRIBUTE_FACTS = frozenset(
    {"AttributeName", "Type", "Value", "ReadOnly", "ResetRequired", "LowerBound", "UpperBound"}
    | {"ScalarIncrement", "MinLength", "MaxLength", "ValueExpression", "IsSystemUniqueProperty"}
)
_LINKS = frozenset({"@odata.id", "Members@odata.nextLink", "Uri"})
_FAULTS = 20
"""Requests in a row without a usable answer, after which the walk ends."""


class Limits:
    """Limits of one recording: ``requests``, ``seconds`` and ``size`` in bytes, all together."""

    def __init__(self, requests: int, seconds: float, size: int) -> None:
        self.requests, self.seconds, self.size = requests, seconds, size
        self._begin = time.monotonic()

    def reached(self, requests: int, size: int) -> str | None:
        """Return which limit is reached, None if no limit is."""
        if requests >= self.requests:
            return f"{self.requests} requests"
        if size >= self.size:
            return f"{self.size // 1024**2} MiB"
        return f"{self.seconds:g} s" if time.monotonic() - self._begin > self.seconds else None


class Walk:
    """A walk through the documents of a BMC.

    ``documents`` has them by path, ``left_out`` counts the paths not read for each reason, and
    ``ended`` is the limit or fault that ended the walk early, if one did.

    :param node: where the BMC is; see `info.parse`.
    :param show: called with the number of documents now and then.
    """

    def __init__(
        self,
        node: info.RedfishInfo,
        limits: Limits,
        show: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.documents: dict[str, Json] = {}
        self.left_out: collections.Counter[str] = collections.Counter()
        self.ended: str | None = None
        self._node, self._limits, self._show = node, limits, show
        self._requests = self._size = 0

    def run(self) -> None:
        """Read all documents.

        :raises errors.Error: the BMC cannot be reached, or refuses the login.
        """
        link = connection.Link(self._node, connection.BmcLock())
        try:
            try:
                wire = link.opened().wire
            except faults.expected() as why:
                raise self._explain_fault(why).error from None
            self._follow_links(wire)
        finally:
            with contextlib.suppress(*faults.expected()):
                link.close()

    def _follow_links(self, wire: transport.Wire) -> None:
        root = self._node.root_prefix.rstrip("/")
        waiting, seen, bad = collections.deque([root]), {root}, 0
        while waiting and self.ended is None:
            path = waiting.popleft()
            document = self._read_document(wire, path)
            bad = 0 if document is not None else bad + 1
            self.ended = self._limits.reached(self._requests, self._size)
            if bad >= _FAULTS:
                self.ended = f"{_FAULTS} requests in a row without a usable answer"
            if document is None:
                continue
            self.documents[path] = without_registry_texts(document)
            self._show(len(self.documents))
            for target in _link_targets(document) if _leads_on(document) else ():
                if target not in seen:
                    seen.add(target)
                    self._choose_path(target, waiting)

    def _choose_path(self, path: str, waiting: collections.deque[str]) -> None:
        why = left_out(path)
        if why is None:
            waiting.append(path)
        else:
            self.left_out[why] += 1

    def _read_document(self, wire: transport.Wire, path: str) -> Json | None:
        """Return a document; None if it cannot be read.

        :raises errors.BmcAccessDenied: the BMC refuses the login.
        """
        self._requests += 1
        try:
            answer = wire.answer(path)
            self._size += len(answer.content)
            return answer.mapping()
        except faults.expected() as why:
            fault = self._explain_fault(why)
            if fault.denied and len(self.documents) <= 1:  # the service root needs no login
                raise fault.error from None
            status = getattr(why, "status_code", None)
            self.left_out[f"answered {status}" if status else "no usable answer"] += 1
            return None

    def _explain_fault(self, why: Exception) -> faults.BmcFault:
        options = config.CONF.redfish
        return faults.explain(
            why, self._node, connect=options.connect_timeout, read=options.read_timeout
        )


def left_out(path: str) -> str | None:
    """Return the reason why a path is not read, None if it is read."""
    return next((why for why, pattern in LEFT_OUT.items() if re.search(pattern, path)), None)


def _leads_on(document: Json) -> bool:
    """Return whether the links of a document are followed: not those to registries of messages."""
    if "MessageRegistryFile." not in (resources.text(document, "@odata.type") or ""):
        return True
    names = (resources.text(document, name) or "" for name in ("Registry", "Id"))
    return any("attribute" in name.lower() for name in names)


def _link_targets(value: object) -> Iterator[str]:
    """Yield the paths that a document leads to, without fragments and final slashes."""
    if isinstance(value, list):
        for inner in value:
            yield from _link_targets(inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in _LINKS or not isinstance(inner, str):
                # A fragment may be a document of its own, or a part of one already read.
                yield from _link_targets(inner)
            elif inner.startswith("/") and not inner.startswith("//"):
                yield inner.partition("#")[0].rstrip("/")


def without_registry_texts(document: Json) -> Json:
    """Return a document without the long texts of a registry."""
    entries = resources.value(document, "RegistryEntries")
    if not isinstance(entries, dict):
        return document
    attributes = [
        {name: fact for name, fact in entry.items() if name in _ATTRIBUTE_FACTS}
        for entry in resources.entries(entries, "Attributes")
    ]
    return {**document, "RegistryEntries": {"Attributes": attributes}}


def packed(walk: Walk, texts: list[str]) -> bytes:
    """Return the file of a recording, which the tests in tests/recorded read.

    :param texts: private texts that the documents need not name, such as the user.
    """
    documents = anonymize.anonymized(walk.documents, texts)
    whole = {
        "machine": _system_model(documents),
        "firmware": _manager_firmware(documents),
        "source": "recorded by tools/record_bmc",
        "licence": "given by its operator",
        "ended": walk.ended,
        "left_out": dict(walk.left_out),
        "documents": documents,
    }
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def _system_model(documents: Mapping[str, Json]) -> str:
    """Return maker and model of the first system."""
    systems = [one for path, one in documents.items() if re.search(r"/Systems/[^/]+$", path)]
    words = [resources.text(one, name) for one in systems[:1] for name in ("Manufacturer", "Model")]
    return " ".join(word for word in words if word) or "unknown"


def _manager_firmware(documents: Mapping[str, Json]) -> str:
    """Return the firmware version of the first manager."""
    managers = [one for path, one in documents.items() if re.search(r"/Managers/[^/]+$", path)]
    return next(
        (found for one in managers if (found := resources.text(one, "FirmwareVersion"))), ""
    )
