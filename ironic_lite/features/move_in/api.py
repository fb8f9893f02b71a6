"""Imports from Ironic, and the nodes that are only observed since: Ironic does not have them."""

from __future__ import annotations

from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy import Rule
from ironic_lite.api.policy.node_rules import READER
from ironic_lite.api.resources import pages, queries
from ironic_lite.api.service import Extension, FleetGauge
from ironic_lite.api.validation import rules
from ironic_lite.checks.database import WithDatabase
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.core.metrics import Family
from ironic_lite.db.engine.session import Connection
from ironic_lite.domain.examination import Check, Verdict, passed, warning
from ironic_lite.domain.fields import Field, FieldAccess, Type
from ironic_lite.features.move_in import rows

_COUNTED = rows.ImportedNodes._fields


def _field(name: str, kind: Type = Type.STRING) -> Field:
    column = None if name in _COUNTED else ""
    return Field(name, 1, kind, FieldAccess.READ, column=column, brief=True, sort=False)


_LISTED = (
    *(_field("uuid"), _field("at", Type.TIME), _field("by"), _field("release"), _field("head")),
    *(_field("source"), _field("trial", Type.BOOLEAN), _field("selection", Type.OBJECT)),
    _field("counts", Type.OBJECT),
    *(_field(name, Type.INTEGER) for name in _COUNTED),
)
_LARGE = (
    *(_field("maps", Type.OBJECT), _field("left_out", Type.LIST), _field("marks", Type.OBJECT)),
    _field("findings", Type.LIST),
)
IMPORTS = queries.RESOURCES["IMPORTS"] = queries.Resource(
    _LISTED, fields_since=1, detail_since=None, direction="desc"
)
IMPORT = queries.RESOURCES["IMPORT"] = queries.Resource(
    (*_LISTED, *_LARGE), fields_since=1, detail_since=None
)


class Imports(expose.Controller):
    """/v1/imports."""

    @expose.expose("GET", "/imports", raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of imports, the newest first, without their findings."""
        query = pages.query(self.service, request, IMPORTS)

        def read(conn: Connection) -> list[Json]:
            columns = tuple({"uuid", *query.fields}.difference(_COUNTED))
            found = rows.page(conn, columns=columns, where=query.where, **query.place)
            return _counted(conn, found, query.fields)

        found = self.service.database.read(read)
        shown = [{name: each[name] for name in query.fields} for each in found]
        return pages.body(request, query, "imports", shown, [each["uuid"] for each in found])

    @expose.expose("GET", "/imports/{ident}", raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return an import with its options and findings."""
        every = tuple(field.name for field in IMPORT.table)
        chosen = queries.one(IMPORT, request.query, version=request.version) or every
        if not rules.uuid_like(ident):
            raise errors.NotFound(what="Import", ident=ident)
        known = rules.uuid(ident, "import")
        (found,) = self.service.database.read(
            lambda conn: _counted(conn, [rows.get(conn, known)], chosen)
        )
        return {name: found[name] for name in chosen}


def _counted(conn: Connection, found: list[Json], chosen: tuple[str, ...]) -> list[Json]:
    """Return imports with the numbers of their nodes, if a chosen field needs them."""
    if not found or not set(chosen).intersection(_COUNTED):
        return found
    counts = rows.count_nodes(conn, [each["uuid"] for each in found])
    none = rows.ImportedNodes()
    return [{**each, **counts.get(each["uuid"], none)._asdict()} for each in found]


OBSERVED = Family("Nodes that are only observed, by whether their power is known.", ("power",))
_NAMED = 10
"""Nodes that the check names."""


def gauges(conn: Connection) -> list[FleetGauge]:
    """Return the numbers of nodes that are only observed."""
    observed, unread = rows.count_observed(conn)
    values = [(("read",), observed - unread), (("unread",), unread)]
    return [FleetGauge("observed_nodes", OBSERVED, values)]


def find_observed(subject: WithDatabase) -> Iterator[Verdict]:
    """Name observed nodes whose power is not known, and since when nodes are observed."""
    (observed, unread), names, since = subject.database.read(
        lambda conn: (
            rows.count_observed(conn),
            rows.unread_names(conn, _NAMED),
            rows.observed_since(conn),
        )
    )
    if since is None:
        yield passed("no node is only observed")
        return
    age = f"the first for {_age((clock.now() - since).total_seconds())}"
    if unread:
        more = ", ..." if unread > len(names) else ""
        text = f"of {observed} nodes that are only observed, {age}, {unread} have not answered"
        do = "GET /v1/doctor?node=NAME examines one of them; correct its address or its password."
        yield warning(f"{text}: {', '.join(names)}{more}", do)
    else:
        yield passed(f"{observed} nodes are only observed, {age}; the power of each is known")


def _age(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} seconds"


CHECKS: tuple[Check[WithDatabase], ...] = (
    Check(
        "imports",
        "Machines that are only observed since their import have answered; and for how long nodes "
        "have been observed.",
        find_observed,
        "Read GET /v1/holds?kind=observe.",
        needs=("database", "schema"),
    ),
)


EXTENSION = Extension(
    (Imports,),
    (
        Rule(
            "baremetal:import:get",
            READER,
            "See the imports from Ironic, with their findings.",
            ("GET /imports", "GET /imports/{ident}"),
        ),
    ),
    gauges=gauges,
    checks=CHECKS,
)
