"""The promised surfaces of the service, each a set of one-line facts from the running code.

A fact that a release has stays in all later ones of the same major version. `SURFACES` has a
function for each file of a folder such as ``1.0``.
"""

from __future__ import annotations

import configparser
import enum
import hashlib
import inspect
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any
from unittest import mock

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.api import health, openapi
from ironic_lite.core import metrics, options
from ironic_lite.db.tables import models
from ironic_lite.domain import notifications
from ironic_lite.drivers import base
from ironic_lite.features.erasures import api as erasures
from ironic_lite.features.webhooks import rules
from ironic_lite.rpc import contract
from tests.compat import commands
from tests.support import whole_api

ROOT = pathlib.Path(__file__).parents[2]
Facts = Iterator[str]

# -- wire ------------------------------------------------------------------------------------


def wire() -> Facts:
    """Routes with their arguments, headers, bodies and statuses; microversions of all parts."""
    found = openapi.document(whole_api.ROWS, *whole_api.ANSWERS)
    parts = found["components"]
    for name, schema in parts["schemas"].items():
        yield from _of_schema(f"schema {name}", schema)
    for name, one in parts["responses"].items():
        yield from _of_schema(f"response {name}", _body(one))
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            yield from _of_operation(f"{method.upper()} {path}", operation, parts["parameters"])


def _of_operation(what: str, operation: Mapping[str, Any], known: Mapping[str, Any]) -> Facts:
    yield f"{what}{_since(operation)}"
    for given in operation["parameters"]:
        one = known[given["$ref"].rpartition("/")[2]] if "$ref" in given else given
        place = f"{what} {one['in']} {one['name']}{_mark(one.get('required', False))}"
        yield from _of_schema(place, {**one["schema"], **_only_since(one)})
    body = operation.get("requestBody")
    if body:
        yield from _of_schema(f"{what} body{_mark(body['required'])}", _body(body))
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            yield f"{what} {status}"
        else:
            yield from _of_schema(f"{what} {status}", _body(answer))


def _body(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a body, which JSON has first; empty without a body."""
    return next((kind.get("schema", {}) for kind in one.get("content", {}).values()), {})


def _of_schema(what: str, schema: Mapping[str, Any]) -> Facts:
    """Yield the type of a value, its literal values, and the same for its keys and items."""
    if "$ref" in schema:
        yield f"{what}: {schema['$ref'].rpartition('/')[2]}"
        return
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    yield f"{what}{': ' if kinds else ''}{'|'.join(sorted(kinds))}{_since(schema)}"
    for value in (*schema.get("enum", ()), *(schema[key] for key in ("const",) if key in schema)):
        yield f"{what} = {value!r}"
    required = schema.get("required", ())
    for name, below in schema.get("properties", {}).items():
        yield from _of_schema(f"{what}.{name}{_mark(name in required)}", below)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from _of_schema(f"{what}[]", schema[key])
    for key in ("anyOf", "oneOf", "allOf"):
        for below in schema.get(key, ()):
            yield from _of_schema(what, below)


def _mark(required: bool) -> str:
    return "!" if required else ""


def _since(one: Mapping[str, Any]) -> str:
    return f" since {one['x-since']}" if "x-since" in one else ""


def _only_since(one: Mapping[str, Any]) -> dict[str, Any]:
    return {"x-since": one["x-since"]} if "x-since" in one else {}


# -- errors, events --------------------------------------------------------------------------


def error_classes() -> Facts:
    """Codes of errors with their status, whether a retry may help, and the begin of their text."""
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.Error):
            yield f"{name} {int(kind.status)}{' retryable' if kind.retryable else ''}"
            yield f"{name} text: {kind.text}"


def events() -> Facts:
    """Kinds of events, types of notifications, headers of webhooks, fields of erasure records."""
    yield from (f"kind {kind}" for kind in notifications.KINDS)
    for row in notifications.TABLE:
        if row.action and row.shape:
            yield f"notification baremetal.{row.action}.{row.status or '*'} {row.shape.name}"
    for shape in notifications.SHAPES:
        yield from (f"payload {shape.name}.{name}" for name in (*shape.names, *shape.more))
    yield from (f"webhook header {name}" for name in rules.headers((), "id", 0, b""))
    yield from (f"erasure record {field.name}: {field.type.name}" for field in erasures.FIELDS)


# -- options, tables -------------------------------------------------------------------------


def option_names() -> Facts:
    """Options with their type, and their other names."""
    for group, opts in options.GROUPS.items():
        for opt in opts:
            yield f"[{group}]{opt.dest}: {type(opt.type).__name__}{'*' if opt.multi else ''}"
            for old in opt.deprecated_opts:
                yield f"[{group}]{opt.dest} also [{old.group or group}]{old.name or opt.dest}"


def tables() -> Facts:
    """Columns with their type, and the contents of the migrations, which never change."""
    for table in models.metadata.tables.values():
        yield from (f"{table.name}.{column.name}: {column.type!r}" for column in table.columns)
    for path in (ROOT / "alembic/versions").glob("*.py"):
        yield f"migration {path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"


# -- programs --------------------------------------------------------------------------------


def programs() -> Facts:
    """Entry points; programs with their commands and options, also those for ``baremetal``."""
    for file in ("setup.cfg", "cli/setup.cfg"):
        setup = configparser.ConfigParser()
        setup.read(ROOT / file)
        for group, lines in setup["options.entry_points"].items():
            for line in filter(None, lines.splitlines()):
                yield f"{group} {line.partition('=')[0].strip()}"
    names = sorted(point.name for point in entry_points(group="console_scripts") if ours(point))
    command = (sys.executable, "-m", "tests.compat.commands")
    running = [
        subprocess.Popen([*command, name], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for name in names
    ]
    for name, program in zip(names, running, strict=True):
        shown, _ = program.communicate(timeout=300)
        assert program.returncode == 0, name
        yield from shown.splitlines()
    for point in filter(ours, entry_points(group="openstack.baremetal.v1")):
        words = point.name.replace("_", " ")
        parser = point.load()(mock.Mock(), None, cmd_name=words).get_parser(words)
        yield from commands.of_help(words, parser.format_help())


def ours(point: EntryPoint) -> bool:
    return point.value.startswith(("ironic_lite.", "ironic_lite_cli."))


# -- drivers ---------------------------------------------------------------------------------


def driver_names() -> Facts:
    """Names of ``drivers.base`` and ``errors`` for drivers, with the signatures of methods."""
    yield f"CONTRACT {base.CONTRACT}"
    for name in base.__all__:
        yield from _of_name(f"base.{name}", getattr(base, name))
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(
            kind, errors.HardwareError | errors.InvalidRequest
        ):
            yield from _of_name(f"errors.{name}", kind)


def _of_name(name: str, what: object) -> Facts:
    if not isinstance(what, type):
        yield f"{name}{_signature(what) if callable(what) else ''}"
        return
    # An enumeration is not called, and its signature is that of Python's version.
    yield name if issubclass(what, Exception | enum.Enum) else f"{name}{_signature(what)}"
    for each in what.__mro__ if not issubclass(what, str | int | Exception | enum.Enum) else ():
        if each.__module__.startswith("ironic_lite."):
            for method, found in vars(each).items():
                if not method.startswith("_") and not isinstance(found, type):
                    function = getattr(found, "__func__", found)
                    shown = _signature(function) if inspect.isfunction(function) else ""
                    yield f"{name}.{method}{shown}"
    if issubclass(what, enum.Enum):
        yield from (f"{name}.{one.name}" for one in what)


def _signature(what: object) -> str:
    """Return the parameters of a function; annotations are not part of the promise."""
    try:
        found = inspect.signature(what)  # type: ignore[arg-type]
    except ValueError:
        return ""
    bare = [one.replace(annotation=one.empty) for one in found.parameters.values()]
    shown = str(found.replace(parameters=bare, return_annotation=found.empty))
    return re.sub(r"<([\w.]+)[^>]*>", r"<\1>", shown)


# -- metrics, rpc ----------------------------------------------------------------------------


def metric_names() -> Facts:
    """Metrics with their labels."""
    known = {**metrics.FAMILIES, **metrics.GAUGES, **health.FLEET_METRICS}
    engine = sa.create_engine("sqlite://")
    models.metadata.create_all(engine)
    with engine.connect() as conn:
        gauges = (each.gauges(conn) for each in whole_api.EXTENSIONS if each.gauges)
        known |= {one.name: one.family for found in gauges for one in found}
    engine.dispose()
    for name, family in known.items():
        yield f"{health.METRIC_PREFIX}{name} {{{','.join(sorted(family.labels))}}}"


def rpc() -> Facts:
    """Methods and arguments of the calls between the processes, with their first version."""
    for version, about in contract.HISTORY:
        yield f"version {version}: {about}"
    for name, method in vars(contract.Conductor).items():
        if not name.startswith("_") and callable(method):
            since = contract.SINCE.get(name, "1.0")
            yield f"{name} since {since}{' cast' if name in contract.CASTS else ''}"
            for one in list(inspect.signature(method).parameters.values())[2:]:
                need = "needed" if one.default is one.empty else "optional"
                first = contract.SINCE.get(f"{name}.{one.name}", since)
                yield f"{name}.{one.name} {need} since {first}"


SURFACES: Mapping[str, Callable[[], Facts]] = {
    "wire": wire,
    "errors": error_classes,
    "events": events,
    "options": option_names,
    "tables": tables,
    "programs": programs,
    "drivers": driver_names,
    "metrics": metric_names,
    "rpc": rpc,
}


def facts(surface: str) -> set[str]:
    """Return all facts of a surface, each in one line."""
    return {re.sub(r"\s+", " ", fact).strip() for fact in SURFACES[surface]()}
