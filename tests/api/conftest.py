"""The API in this process: a real SQLite database, and a recorded conductor."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import middleware
from ironic_lite.api.controllers import nodes as controllers_nodes
from ironic_lite.api.policy import enforcement
from ironic_lite.core import clock, config
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from tests.support import configurations, whole_api
from tests.support.api_rows import HOST, AddNode, add_conductor
from tests.support.callers import Callers, Known
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    """Options of our own, so that a test can override some."""
    return configurations.shared({"conductor__node_locked_retry_interval": 0})


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
    return whole_api.build(database, recorder, conf)


@pytest.fixture
def api(application: middleware.Wsgi) -> Client:
    """A client that sends no version, so the newest holds."""
    return Client(application)


@pytest.fixture(scope="session")
def asker() -> Iterator[enforcement.AccessFactory]:
    """The default rules: reading them takes longer than most tests."""
    own = cfg.ConfigOpts()
    config.register(own)
    own([], project=config.PROJECT, default_config_files=[], default_config_dirs=[])
    yield enforcement.AccessFactory(own)
    own.clear()


@pytest.fixture
def callers(
    database: session.Database,
    recorder: Recorder,
    conf: cfg.ConfigOpts,
    asker: enforcement.AccessFactory,
) -> Callers:
    """Clients of each role, bound by the default rules."""
    inner = whole_api.routed(database, recorder, conf)
    return Callers(middleware.RequestMiddleware(inner, conf, Known(asker)))


@pytest.fixture
def add_node(database: session.Database) -> AddNode:
    """Put a node into the database: column values by name; return the whole row."""

    def add(**values: Any) -> dict[str, Any]:
        row = {
            **controllers_nodes.BLANK_NODE,
            "uuid": str(uuid.uuid4()),
            "driver": "fake-hardware",
            "provision_state": "enroll",
            "created_at": clock.now(),
            **values,
        }
        database.write(lambda conn: nodes.insert(conn, row))
        return database.read(lambda conn: nodes.get(conn, row["uuid"]))

    return add
