"""The command that verifies erasure records, the evidence of erasures."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from ironicclient import exc

from ironic_lite_cli import http_api, progress, rows, watching
from ironic_lite_cli.http_api import Json, JsonView
from ironic_lite_cli.rows import Argument, OneOf

_VERIFIED = ("record", "issued_at", "result", "level", "key", "verified")
_GOOD = "good"
_LONGEST_SERIAL = 255


def _read_key(path: str) -> Ed25519PublicKey:
    """Return the public key of a PEM file.

    :raises argparse.ArgumentTypeError: the file cannot be read, or has no such key.
    """
    try:
        key = _parse_key(Path(path).read_bytes())
    except OSError as why:
        raise argparse.ArgumentTypeError(f"{path!r} cannot be read: {why.strerror}") from why
    if key is None:
        raise argparse.ArgumentTypeError(f"{path!r} has no public Ed25519 key in PEM")
    return key


def _parse_key(pem: bytes) -> Ed25519PublicKey | None:
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PublicKey) else None


class VerifyErasures(rows.Lister):
    """Verify the signature of an erasure record, or of all records of a node and their chain.

    The lists, which no signature covers, are compared with the signed records. Exit status 0:
    everything is good. 3: a record is not signed, was changed, is missing, or is listed wrongly.
    """

    status = watching.ENDED_OTHERWISE
    """The exit status; 0 only after every record was good."""

    arguments = (
        OneOf(
            Argument("erasure", "UUID of a record.", more={"nargs": "?"}),
            Argument("--node", "Name or UUID of a node; the UUID of a deleted one."),
        ),
        Argument(
            "--key",
            "PEM file with a public key to trust. May be given several times. Default: the keys "
            "that the service returns.",
            "<file>",
            {"action": "append", "type": _read_key},
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the columns and a row for each record, and for each missing one."""
        api = self.api
        keys = _Keys(api, parsed_args.key)
        if parsed_args.node is None:
            found = [_with_list(api, _fetch(api, parsed_args.erasure, keys))]
        else:
            found = list(_with_chain(_records_of(api, parsed_args.node, keys)))
            if not found:
                print(f"Node {parsed_args.node} has no erasure records.", file=self.app.stderr)
        if found and all(one.fault is None for one in found):
            self.status = 0
        return _VERIFIED, [_row(one) for one in found]

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the table; return the exit status."""
        return int(super().run(parsed_args)) or self.status


# Keys.


class _Keys:
    """The keys that verify records.

    :param given: the only keys to trust; None for those of the service.
    """

    def __init__(self, api: http_api.Api, given: Sequence[Ed25519PublicKey] | None) -> None:
        self._api = api
        self._given = given
        self._fetched: dict[str, Ed25519PublicKey | None] = {}

    def fault_of(self, data: bytes, signature: bytes, name: str) -> str | None:
        """Return why the signature of a record is not good; None if it is.

        :param name: the key that the record names.
        """
        keys = self._given
        if keys is None:
            if name not in self._fetched:
                pem = _content(self._api, "erasures", "keys", name)
                self._fetched[name] = None if pem is None else _parse_key(pem)
            fetched = self._fetched[name]
            if fetched is None:
                return f"the service has no key {name}"
            keys = (fetched,)
        if any(_verifies(key, data, signature) for key in keys):
            return None
        return "the record was changed, or signed with another key"


def _verifies(key: Ed25519PublicKey, data: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


# Records.


class _Record(NamedTuple):
    """A verified record, or a missing one, which has no ``document``.

    ``digest`` is the SHA-256 of its bytes; ``fault`` is None if the record is good.
    """

    uuid: str
    digest: str
    document: Json
    fault: str | None


def _content(api: http_api.Api, *words: str) -> bytes | None:
    """Return the exact bytes of an answer; None for 404."""
    try:
        return api.content(*words)
    except exc.NotFound:
        return None


def _fetch(api: http_api.Api, record: str, keys: _Keys, node: str | None = None) -> _Record:
    """Fetch and verify a record.

    :param node: the UUID of the node that it must be about, if that is known.
    """
    data = api.content("erasures", record)
    document = _parse(data)
    return _Record(
        record,
        hashlib.sha256(data).hexdigest(),
        document,
        _identity_fault(document, record, node) or _signature_fault(api, record, data, keys),
    )


def _parse(data: bytes) -> Json:
    """Return the document of a record; empty if the bytes are not a JSON object."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _identity_fault(document: Json, record: str, node: str | None) -> str | None:
    if str(document.get("uuid")).lower() != record.lower():
        return "the service has answered with another record"
    named = _member(document, "node", "uuid")
    if node is not None and named != node:
        return f"the record is about node {named}"
    return None


def _signature_fault(api: http_api.Api, record: str, data: bytes, keys: _Keys) -> str | None:
    name = _member(_parse(data), "issuer", "key")
    if name is None:
        return "not signed"
    signature = _content(api, "erasures", record, "signature")
    if signature is None:
        return f"the record names key {name}, and has no signature"
    return keys.fault_of(data, signature, name)


def _member(document: Json, group: str, name: str) -> str | None:
    about = document.get(group)
    found = about.get(name) if isinstance(about, dict) else None
    return None if found is None else str(found)


def _records_of(api: http_api.Api, node: str, keys: _Keys) -> list[_Record]:
    """Return the records of a node, the oldest first."""
    rows = list(_listed(api, node))
    if not rows:
        return []
    about = _uuid_of(node) or str(rows[0]["node_uuid"])
    fetched = ((row, _fetch(api, row["uuid"], keys, about)) for row in reversed(rows))
    return [one._replace(fault=one.fault or _list_fault(row, one)) for row, one in fetched]


def _listed(api: http_api.Api, node: str) -> Iterator[Json]:
    """Yield the records of a node as lists show them, the newest first."""
    query: Json = {"node": node, "limit": http_api.PAGE}
    while True:
        page = api.get("erasures", **query)
        yield from page["erasures"]
        if "next" not in page or not page["erasures"]:
            return
        query["marker"] = page["erasures"][-1]["uuid"]


def _with_list(api: http_api.Api, record: _Record) -> _Record:
    """Return a record with the fault of its row in the list of its node, if it has one."""
    if record.fault is not None:
        return record
    node = str(_member(record.document, "node", "uuid"))
    rows = (row for row in _listed(api, node) if row["uuid"] == record.uuid.lower())
    row = next(rows, None)
    fault = f"the list of node {node} does not have it" if row is None else _list_fault(row, record)
    return record._replace(fault=fault)


def _moment(value: object) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(str(value))
    except ValueError:
        return None


_COMPARED: Mapping[str, Callable[[_Record], object]] = {
    # column of the lists: its value by the record
    "uuid": lambda one: one.document.get("uuid"),
    "node_uuid": lambda one: _member(one.document, "node", "uuid"),
    "node_name": lambda one: _member(one.document, "node", "name"),
    "run_uuid": lambda one: _member(one.document, "run", "uuid"),
    "at": lambda one: _moment(one.document.get("issued_at")),
    "result": lambda one: one.document.get("result"),
    "level": lambda one: one.document.get("level"),
    "serials": lambda one: _serials(one.document),
    "key": lambda one: _member(one.document, "issuer", "key"),
    "sha256": lambda one: one.digest,
}
_READ: Mapping[str, Callable[[Any], object]] = {
    "at": _moment,
    "serials": lambda value: sorted(value) if isinstance(value, list) else value,
}


def _list_fault(row: JsonView, record: _Record) -> str | None:
    """Return which values of a list differ from the signed record; None if none does."""
    faults = []
    for name, value in row.items():
        if name not in _COMPARED:
            continue
        listed = _READ[name](value) if name in _READ else value
        signed = _COMPARED[name](record)
        if listed != signed:
            faults.append(f"{name} is {value}, and {_shown(signed)} in the signed record")
    return f"the list differs: {'; '.join(faults)}" if faults else None


def _serials(document: Json) -> list[str]:
    """Return the serial numbers of the disks of a record as lists show them, sorted."""
    groups = (document.get(name) for name in ("disks", "not_erased"))
    disks = [one for each in groups if isinstance(each, list) for one in each]
    found = (one.get("serial") for one in disks if isinstance(one, dict))
    return sorted({str(serial)[:_LONGEST_SERIAL] for serial in found if serial})


def _shown(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime.datetime) else str(value)


def _uuid_of(node: str) -> str | None:
    """Return the UUID of a node in its usual form; None for a name."""
    try:
        return str(uuid.UUID(node))
    except ValueError:
        return None


def _with_chain(records: Iterable[_Record]) -> Iterator[_Record]:
    """Yield the records of a node, and at each gap of their chain the record that is not there.

    :param records: the oldest first.
    """
    last: str | None = None
    for one in records:
        named = one.document.get("previous")
        if named is None and last is not None:
            yield one._replace(fault=one.fault or "names no record before it, and there is one")
        elif named != last:
            yield _Record(str(named), str(named), {}, "missing, or of another project's time")
            yield one
        else:
            yield one
        last = f"sha256:{one.digest}"


def _row(record: _Record) -> list[str]:
    """Return the values of a record; they come from the service and may hold anything."""
    document = record.document
    shown = [record.uuid, *(document.get(name) for name in ("issued_at", "result", "level"))]
    words = [*shown, _member(document, "issuer", "key"), record.fault or _GOOD]
    return [progress.one_line("" if word is None else str(word)) for word in words]
