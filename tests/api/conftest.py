"""The API in this process: a real SQLite database, and a recorded conductor."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import app, middleware
from ironic_lite.api.policy import enforcer
from ironic_lite.api.resources import enrolment
from ironic_lite.core import clock, config
from ironic_lite.db.engine import session
from ironic_lite.db.queries import conductors, nodes
from ironic_lite.db.tables import models
from tests.support.callers import Callers, Known
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

HOST = "conductor-1"
DRIVERS = ("fake-hardware", "redfish")

AddNode = Callable[..., dict[str, Any]]


@pytest.fixture
def conf() -> Iterator[cfg.ConfigOpts]:
    """Options of our own, so that a test can override some."""
    own = cfg.ConfigOpts()
    config.register(own)
    own([], project=config.PROJECT, default_config_files=[], default_config_dirs=[])
    own.set_override("node_locked_retry_interval", 0, "conductor")
    yield own
    own.clear()


@pytest.fixture
def database(sqlite_database: session.Database) -> session.Database:
    """An empty database with one living conductor."""
    add_conductor(sqlite_database, HOST)
    return sqlite_database


@pytest.fixture
def recorder() -> Recorder:
    """What the API asks of conductors."""
    return Recorder()


@pytest.fixture
def application(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> middleware.Wsgi:
    """The whole API."""
    return app.build(database, recorder, conf)


@pytest.fixture
def api(application: middleware.Wsgi) -> Client:
    """A client that sends no version, so the newest holds."""
    return Client(application)


@pytest.fixture(scope="session")
def asker() -> Iterator[enforcer.Asker]:
    """The default rules: reading them takes longer than most tests."""
    own = cfg.ConfigOpts()
    config.register(own)
    own([], project=config.PROJECT, default_config_files=[], default_config_dirs=[])
    yield enforcer.Asker(own)
    own.clear()


@pytest.fixture
def callers(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts, asker: enforcer.Asker
) -> Callers:
    """Clients of each role, bound by the default rules."""
    inner = app.routed(database, recorder, conf)
    return Callers(middleware.RequestMiddleware(inner, conf, Known(asker)))


@pytest.fixture
def add_node(database: session.Database) -> AddNode:
    """Put a node into the database: column values by name; return the whole row."""

    def add(**values: Any) -> dict[str, Any]:
        row = {
            **enrolment.BLANK,
            "uuid": str(uuid.uuid4()),
            "driver": "fake-hardware",
            "provision_state": "enroll",
            "created_at": clock.now(),
            **values,
        }
        database.write(lambda conn: nodes.insert(conn, row))
        return database.read(lambda conn: nodes.get(conn, row["uuid"]))

    return add


def add_conductor(database: session.Database, host: str, group: str = "") -> None:
    """Put a living conductor on the list, with every fake interface."""

    def write(conn: session.Connection) -> None:
        known = conductors.register(conn, host=host, group=group, version="1", now=clock.now())
        rows = [
            {
                "hardware_type": driver,
                "interface_type": kind,
                "interface_name": "fake",
                "is_default": True,
            }
            for driver in DRIVERS
            for kind in ("power", "management", "deploy")
        ]
        conductors.set_interfaces(conn, known, rows)

    database.write(write)


def set_node(database: session.Database, node: Mapping[str, Any], **values: Any) -> None:
    """Give columns of a node other values, whatever its state says of that."""
    mine = models.nodes.c.uuid == node["uuid"]
    database.write(lambda conn: conn.execute(models.nodes.update().where(mine).values(**values)))
