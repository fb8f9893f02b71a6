"""GET /v1/whoami: who asks, and which rules this caller passes."""

from __future__ import annotations

import importlib.metadata
import time

import pytest
from oslo_config import cfg

from ironic_lite.api import policy
from ironic_lite.api.policy import enforcer
from ironic_lite.api.policy.access import Access, Target
from ironic_lite.api.resources import own_rights
from ironic_lite.api.resources.own_rights import OwnRights
from ironic_lite.api.window import files
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import versions
from tests.support.callers import OWNER, Callers
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

ALL = sorted(name for name in policy.BY_NAME if name.startswith("baremetal:"))
POWER, CREATE = "baremetal:node:set_power_state", "baremetal:node:create"


def test_without_rules_the_caller_passes_all(api: Client, database: Database) -> None:
    with count_statements(database) as sent:
        answer = api.get("/v1/whoami")
    assert (answer.status, len(sent)) == (200, 0)
    assert answer.json == {
        "auth": "noauth",
        "user": None,
        "project": None,
        "roles": [],
        "system": True,
        "expires_at": None,
        "rules": ALL,
        "own_rules": [],
        "release": importlib.metadata.version("ironic_lite"),
        "version": versions.MAX_VERSION,
        "window": files.window().hash,
    }


def test_every_version_has_it(api: Client) -> None:
    assert api.at(1).get("/v1/whoami").status == 200
    assert api.post("/v1/whoami", {}).status == 405


def test_hash_is_missing_without_the_window(api: Client, conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_window", False, "api")
    assert api.get("/v1/whoami").json["window"] is None


def test_rules_depend_on_the_caller(callers: Callers) -> None:
    admin = callers("admin").get("/v1/whoami").json
    assert (admin["system"], admin["project"], admin["own_rules"]) == (True, None, [])
    assert {POWER, CREATE, "baremetal:metrics:get"} <= set(admin["rules"])
    assert "admin" in admin["roles"]
    reader = callers("reader").get("/v1/whoami").json
    assert "baremetal:node:get" in reader["rules"]
    assert not {POWER, CREATE} & set(reader["rules"])
    member = callers("member", OWNER).get("/v1/whoami").json
    assert (member["system"], member["project"]) == (False, OWNER)
    assert set(member["rules"]) < set(member["own_rules"])
    assert POWER in member["own_rules"]
    assert POWER not in member["rules"]
    assert "baremetal:node:list" in member["rules"]
    assert "baremetal:node:list_all" not in member["own_rules"]
    stranger = callers("reader", OWNER).get("/v1/whoami").json
    assert POWER not in stranger["own_rules"]


def test_rules_are_asked_once_a_minute() -> None:
    now, asked = [100.0], []

    def ask(name: str, _target: Target) -> bool:
        asked.append(name)
        return name == POWER

    rights = OwnRights(now=lambda: now[0])

    def of(project: str) -> own_rights.Rights:
        return rights.of(Access(ask, project, key=project))

    assert of("p") == of("p") == ((POWER,), (POWER,))
    assert len(asked) == 2 * len(ALL)
    now[0] += own_rights.KEPT_SECONDS - 1
    of("p")
    assert len(asked) == 2 * len(ALL)
    of("q")
    now[0] += 1
    of("p")
    assert len(asked) == 6 * len(ALL)


@pytest.mark.parametrize("project", [None, OWNER])
def test_all_rules_are_asked_in_time(conf: cfg.ConfigOpts, project: str | None) -> None:
    """A generous limit; the aim is a tenth of a second."""
    asker = enforcer.AccessFactory(conf)
    environ = {"HTTP_X_ROLES": "reader", "HTTP_X_USER_ID": "u"}
    environ |= {"HTTP_X_PROJECT_ID": project} if project else {"HTTP_OPENSTACK_SYSTEM_SCOPE": "all"}
    begun = time.process_time()
    assert OwnRights().of(asker.access(environ)).of_any
    assert time.process_time() - begun < 2
