"""Commands send queries and bodies that the API accepts."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite_cli import commands
from tests.support.api_rows import AddNode
from tests.support.database_rows import add_hold, add_import
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature(
    *("attention", "doctor", "erasures", "events", "move_in", "search", "statistics"),
    *("webhooks", "why"),
)

UUID = "5f3b1c8e-0000-4000-8000-000000000001"
AT = "2030-01-31T18:00:00Z"
COMMANDS: tuple[tuple[Any, str], ...] = (
    (commands.Attention, "--filter driver=fake-hardware --filter held=false --limit 5"),
    (commands.batch_list, "--open --limit 5"),
    (commands.erasure_list, f"--node {UUID} --serial S --result complete --since {AT} --limit 5"),
    (commands.SetDataState, "n1 dirty --reason borrowed"),
    (commands.data_state_show, "n1"),
    (
        commands.hold_create,
        f"n1 --kind repair --reason case --until {AT} --block verbs --block machine",
    ),
    (commands.ListHolds, "n1 --kind legal --ended"),
    (commands.ListHolds, ""),
    (commands.import_list, "--limit 5"),
    (
        commands.run_list,
        "--state failed,aborted --verb clean --node n1 --requester ann --driver fake-hardware "
        f"--resource-class x --code StepFailed --since PT12H --before {AT} --batch {UUID} "
        f"--cause c41f0be9a7d2 --retry-of {UUID} --of-project p --latest --limit 5 --long",
    ),
    (commands.run_list, "--overdue"),
    (commands.step_statistics, f"--step deploy.erase --driver d --resource-class r --since {AT}"),
    (commands.event_list, "--node n1 --kind power --since 0 --limit 5"),
    (commands.event_list, "--since 12h --before 2h"),
    (commands.node_run_list, "n1 --state failed --limit 5"),
    (commands.node_search, "rack2 --limit 5"),
    (commands.CreatePort, "n1 52:54:00:00:00:01 --name p1 --physical-network net --no-pxe"),
    (commands.webhook_create, "https://192.0.2.1/ --since 0 --kind power --node n1"),
    (commands.webhook_list, ""),
)


class Http:
    """The HTTP client of python-ironicclient, with the API in this process."""

    def __init__(self, api: Client) -> None:
        self._api = api

    def json_request(
        self,
        method: str,
        url: str,
        *,
        body: Any = None,
        headers: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> tuple[Any, Any]:
        """Return an answer and its body."""
        del timeout
        answer = self._api.request(method, url, body, headers=headers)
        assert answer.status < 400, (method, url, answer.text)
        return SimpleNamespace(headers=answer.headers), answer.json if answer.body else None


@pytest.mark.parametrize(("kind", "words"), COMMANDS)
def test_command_sends_what_the_api_accepts(
    api: Client, add_node: AddNode, kind: Any, words: str
) -> None:
    add_node(name="n1", uuid=UUID)
    manager = SimpleNamespace(baremetal=SimpleNamespace(http_client=Http(api)))
    app = SimpleNamespace(client_manager=manager, stdout=io.StringIO(), stderr=io.StringIO())
    one = kind(app, None)
    names, _ = one.take_action(one.get_parser("baremetal").parse_args(words.split()))
    assert names


def test_import_is_shown_and_an_unread_node_is_released(
    api: Client, database: Database, add_node: AddNode
) -> None:
    one = add_import(database)
    node = add_node(name="n1", import_uuid=one, provision_state="active", power_state=None)
    hold = add_hold(database, node["uuid"], "observe")
    manager = SimpleNamespace(baremetal=SimpleNamespace(http_client=Http(api)))
    app: Any = SimpleNamespace(client_manager=manager, stdout=io.StringIO(), stderr=io.StringIO())
    show = commands.import_show(app, None)
    names, values = show.take_action(show.get_parser("baremetal").parse_args([one]))
    found = dict(zip(names, values, strict=True))
    assert (found["release"], found["observed"], found["unread"]) == ("35 (2026.1)", 1, 1)
    end = commands.hold_delete(app, None)
    end.take_action(end.get_parser("baremetal").parse_args(["n1", hold, "--unread"]))
    assert api.get("/v1/nodes?held=observe").json["nodes"] == []
