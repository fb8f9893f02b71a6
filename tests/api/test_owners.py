"""Owners of nodes: what joins nodes of one owner alone, and what projects of the time may read."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events, runs
from ironic_lite.db.tables import models
from ironic_lite.domain.run_stops import How, Stop, StopProgress
from ironic_lite.features.erasures import rows
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, As, Callers
from tests.support.database_rows import insert_run, new_uuid
from tests.support.waiting_client import WaitingApplication
from tests.support.wsgi_client import Client, Response, op

# What joins nodes joins nodes of one owner, whoever asks for it.

KINDS: dict[str, dict[str, Any]] = {
    "ports": {"address": "52:54:00:00:00:0b"},
    "portgroups": {},
    "volume/connectors": {"type": "iqn", "connector_id": "x"},
    "volume/targets": {"volume_type": "iscsi", "volume_id": "x", "boot_index": 0},
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_rows_of_a_node_move_only_to_nodes_of_its_owner(
    api: Client, callers: Callers, add_node: AddNode, kind: str
) -> None:
    about = {"provision_state": "manageable", "power_state": "power off"}
    first, second = (add_node(owner=OWNER, **about)["uuid"] for _ in range(2))
    foreign, nobodys = (add_node(owner=owner, **about)["uuid"] for owner in (STRANGER, None))
    made = api.post(f"/v1/{kind}", {"node_uuid": first, **KINDS[kind]})
    assert made.status == 201, made.text
    path = f"/v1/{kind}/{made.json['uuid']}"
    for caller in (api, callers("admin")):
        for other in (foreign, nobodys):
            answer = caller.patch(path, [op("replace", "/node_uuid", other)])
            assert (answer.status, "another owner" in answer.text) == (400, True)
    assert api.get(path).json["node_uuid"] == first
    assert api.patch(path, [op("replace", "/node_uuid", second)]).status == 200


def test_a_child_has_the_owner_of_its_parent(
    api: Client, callers: Callers, add_node: AddNode
) -> None:
    parent, child = (add_node(owner=OWNER)["uuid"] for _ in range(2))
    foreign = add_node(owner=STRANGER)["uuid"]
    body = {"driver": "fake-hardware", "parent_node": parent}
    for caller in (api, callers("admin")):
        for owner, status in ((STRANGER, 400), (OWNER, 201)):
            assert caller.post("/v1/nodes", {**body, "owner": owner}).status == status
        path = f"/v1/nodes/{child}"
        assert caller.patch(path, [op("add", "/parent_node", foreign)]).status == 400
        assert caller.patch(path, [op("add", "/parent_node", parent)]).status == 200


def test_node_with_a_parent_or_children_keeps_its_owner(
    api: Client, callers: Callers, add_node: AddNode
) -> None:
    """Else what is done to the parent would reach somebody else's machine."""
    parent, other = (add_node(owner=owner)["uuid"] for owner in (OWNER, STRANGER))
    child = add_node(owner=OWNER, parent_node=parent)["uuid"]
    give = op("replace", "/owner", STRANGER)
    for caller in (api, callers("admin")):
        for mine, its in ((parent, child), (child, parent)):
            answer = caller.patch(f"/v1/nodes/{mine}", [give])
            assert (answer.status, its in answer.text) == (409, True)
            assert api.get(f"/v1/nodes/{mine}").json["owner"] == OWNER
    moved = api.patch(f"/v1/nodes/{child}", [give, op("replace", "/parent_node", other)])
    assert (moved.status, moved.json["parent_node"]) == (200, other)
    assert api.patch(f"/v1/nodes/{parent}", [give]).status == 200
    alone = [op("replace", "/owner", OWNER), op("remove", "/parent_node")]
    assert api.patch(f"/v1/nodes/{child}", alone).status == 200


# Events, runs, logs, holds and erasure records are read by the projects of their time.
#
# A machine goes from one project to the next; what was done on it before stays with the former.

OLD, NEW = "p-old", "p-new"
SECRET = "audit of project old"


class Moved:
    """A node that OLD has used for a while, and that NEW has now."""

    def __init__(self, callers: Callers, database: Database, add_node: AddNode) -> None:
        self.admin, self.old, self.new = (
            callers("admin"),
            callers("admin", OLD),
            callers("admin", NEW),
        )
        self.lessee = callers("admin", LESSEE)
        self.database = database
        self.node = add_node(owner=OLD, provision_state="manageable")["uuid"]
        self.path = f"/v1/nodes/{self.node}"
        self.ended = self.add_run(OLD, "failed")
        self.erasure = self._add_erasure(OLD)
        self.hold = self._add_hold(self.old)
        self.lifted = self._add_hold(self.old)
        assert self.old.delete(f"{self.path}/holds/{self.lifted}?reason={SECRET}").status == 204

    def add_run(self, owner: str | None, state: str) -> str:
        """Insert a run with a line of its log and an event, and return its UUID."""
        run, at = new_uuid(), clock.now()
        row: dict[str, Any] = {
            **{
                "uuid": run,
                "node_uuid": self.node,
                "verb": "clean",
                "state": state,
                "owner": owner,
            },
            **{"started_at": at, "error": {"code": "X", "text": SECRET}, "requester": "olga"},
            "ended_at": at if state == "failed" else None,
        }
        told = {"at": at, "node_uuid": self.node, "kind": "fault", "event": "error", "owner": owner}

        def write(conn: Connection) -> None:
            insert_run(conn, row)
            runs.append_lines(conn, run, at=at, text=SECRET)
            events.add(conn, [{**told, "run_uuid": run, "data": {"error": SECRET}}])

        self.database.write(write)
        return run

    def _add_erasure(self, owner: str) -> str:
        row = {
            **dict.fromkeys(models.columns(models.erasures)[1:]),
            **{"uuid": new_uuid(), "node_uuid": self.node, "at": clock.now(), "owner": owner},
            **{"result": "complete", "level": "clear", "serials": ["S-OLD"], "statement": "{}"},
            "sha256": "0" * 64,
        }
        self.database.write(lambda conn: rows.add(conn, row))
        return str(row["uuid"])

    def _add_hold(self, caller: As) -> str:
        answer = caller.post(f"{self.path}/holds", {"kind": "freeze", "reason": SECRET})
        assert answer.status == 201, answer.text
        return str(answer.json["uuid"])

    def hand_over(self, owner: str | None = NEW, lessee: str | None = None) -> None:
        """Change owner and lessee by requests, as an administrator."""
        patch = [
            {"op": "replace", "path": f"/{name}", "value": value}
            for name, value in (("owner", owner), ("lessee", lessee))
        ]
        answer = self.admin.patch(self.path, patch)
        assert answer.status == 200, answer.text

    def lists(self, caller: As) -> dict[str, list[str]]:
        """Return the UUIDs in each list about all nodes."""
        found = {}
        for kind in ("runs", "holds", "erasures"):
            more = "&ended=true" if kind == "holds" else ""
            answer = caller.get(f"/v1/{kind}?node={self.node}{more}")
            assert answer.status == 200, answer.text
            found[kind] = [one["uuid"] for one in answer.json[kind]]
        return found

    def kinds(self, caller: As) -> list[str]:
        """Return the kinds of the events that a caller reads of the node."""
        answer = caller.get(f"/v1/events?since=0&node={self.node}")
        assert answer.status == 200, answer.text
        return [one["kind"] for one in answer.json["events"]]


@pytest.fixture
def moved(callers: Callers, database: Database, add_node: AddNode) -> Moved:
    """A node of OLD, with something of each kind."""
    return Moved(callers, database, add_node)


READ = (
    *("{path}/runs/{ended}", "{path}/runs/current?wait=1", "{path}/runs/{ended}/log"),
    *("{path}/runs/current/log", "/v1/runs/{ended}"),
    *("/v1/erasures/{erasure}", "/v1/erasures/{erasure}/signature"),
)
LISTS = ("runs", "history", "erasures", "holds?ended=true", "why")


@pytest.mark.parametrize("path", READ)
def test_the_new_owner_reads_no_record_of_the_time_before(moved: Moved, path: str) -> None:
    moved.hand_over()
    assert moved.new.get(path.format(**vars(moved))).status == 404


@pytest.mark.feature("events", "why")
@pytest.mark.parametrize("path", LISTS)
def test_lists_of_a_node_have_nothing_of_the_time_before(moved: Moved, path: str) -> None:
    before = moved.old.get(f"{moved.path}/{path}").body.decode()
    assert SECRET in before or "S-OLD" in before
    moved.hand_over()
    answer = moved.new.get(f"{moved.path}/{path}")
    assert answer.status == 200
    told = answer.body.decode()
    assert not any(word in told for word in (SECRET, "S-OLD", moved.ended, moved.lifted))


@pytest.mark.feature("erasures")
def test_lists_of_all_nodes_follow_the_owner_of_the_time(moved: Moved) -> None:
    everything = {
        "runs": [moved.ended],
        "holds": [moved.hold, moved.lifted],
        "erasures": [moved.erasure],
    }
    assert moved.lists(moved.old) == everything
    moved.hand_over()
    assert moved.lists(moved.old) == everything
    assert moved.lists(moved.new) == {"runs": [], "holds": [moved.hold], "erasures": []}
    assert moved.lists(moved.admin) == everything


@pytest.mark.parametrize("listing", ["/v1/runs", "/v1/nodes/{node}/runs"])
@pytest.mark.parametrize("query", ["state=failed,aborted", "state=running,waiting"])
def test_project_lists_runs_of_several_states(moved: Moved, listing: str, query: str) -> None:
    open_run = moved.add_run(OLD, "running")
    answer = moved.old.get(f"{listing.format(node=moved.node)}?{query}")
    assert answer.status == 200, answer.text
    expected = [moved.ended] if "failed" in query else [open_run]
    assert [run["uuid"] for run in answer.json["runs"]] == expected


@pytest.mark.feature("erasures")
def test_the_former_owner_keeps_its_evidence(moved: Moved) -> None:
    moved.hand_over()
    assert moved.old.get(moved.path).status == 404
    for path in ("{path}/runs/{ended}", "/v1/runs/{ended}", "/v1/erasures/{erasure}"):
        assert moved.old.get(path.format(**vars(moved))).status == 200
    assert SECRET in moved.old.get(f"{moved.path}/runs/{moved.ended}/log").body.decode()
    assert "fault" in moved.kinds(moved.old)


@pytest.mark.feature("events")
def test_former_owner_reads_no_name_driver_or_class_of_later(moved: Moved) -> None:
    """Neither in rows nor by a filter that answers for the present node."""

    def names(caller: As) -> set[str | None]:
        feed = caller.get(f"/v1/events?since=0&node={moved.node}")
        ended = caller.get(f"/v1/runs/{moved.ended}?fields=node_name")
        listed = caller.get(f"/v1/runs?node={moved.node}&fields=node_name")
        found = [one["name"] for one in feed.json["events"]]
        return {*found, *(one["node_name"] for one in (ended.json, *listed.json["runs"]))}

    def found(caller: As, query: str) -> list[str]:
        return [one["uuid"] for one in caller.get(f"/v1/runs?{query}").json["runs"]]

    def rename(name: str) -> None:
        patch = [
            {"op": "add", "path": path, "value": name} for path in ("/name", "/resource_class")
        ]
        assert moved.admin.patch(moved.path, patch).status == 200

    rename("of-old")
    assert names(moved.old) == {"of-old"}
    assert found(moved.old, "resource_class=of-old") == [moved.ended]
    moved.hand_over()
    rename("of-new")
    assert names(moved.old) == {None}
    assert names(moved.admin) == {"of-new"}
    for query in ("resource_class=of-new", "driver=fake-hardware"):
        assert found(moved.old, query) == []
        assert found(moved.admin, query) == [moved.ended]
    moved.hand_over("p-third", lessee=OLD)
    assert names(moved.old) == {"of-new"}


@pytest.mark.feature("events")
def test_both_owners_see_the_change_of_owner_and_their_own_side_only(moved: Moved) -> None:
    before = moved.kinds(moved.old)
    moved.hand_over()
    assert moved.kinds(moved.old) == [*before, "node_updated"]
    assert moved.kinds(moved.new) == ["node_updated"]
    moved.new.post(f"{moved.path}/holds", {"kind": "freeze", "reason": "of new"})
    assert moved.kinds(moved.new) == ["node_updated", "hold_added"]
    assert moved.kinds(moved.old) == [*before, "node_updated"]


@pytest.mark.feature("events")
def test_each_owner_sees_its_own_side_of_the_values(
    moved: Moved, callers: Callers, database: Database
) -> None:
    patch = [
        op("add", "/lessee", "p-lessee-of-old"),
        op("add", "/description", "words of old"),
        op("add", "/driver_info", {"address": "https://of-old"}),
    ]
    assert moved.admin.patch(moved.path, patch).status == 200
    patch = [
        op("replace", "/owner", NEW),
        op("replace", "/lessee", "p-lessee-of-new"),
        op("replace", "/description", "words of new"),
        op("replace", "/driver_info", {"address": "https://of-new"}),
    ]
    assert moved.admin.patch(moved.path, patch).status == 200

    path = f"/v1/events?since=0&node={moved.node}&kind=node_updated"
    streaming = Callers(WaitingApplication(callers.application, database))
    for project, count, own, foreign in (
        (OLD, 2, ["words of old", "p-lessee-of-old"], [NEW, "of-new", "of new"]),
        (NEW, 1, ["words of new", "p-lessee-of-new"], [OLD, "of-old", "of old"]),
        (None, 3, ["words of old", "words of new", OLD, NEW], []),
        (LESSEE, 0, [], ["of old", "of new"]),
    ):
        page = callers("admin", project).get(path)
        assert len(page.json["events"]) == count
        texts = [page.body.decode()]
        if count:
            stream = streaming("admin", project).get(f"{path}&follow=true&limit={count}")
            texts.append(stream.body.decode())
        for text in texts:
            assert all(word in text for word in own)
            assert not any(word in text for word in foreign)


def test_hold_in_force_is_shown_without_its_reason(moved: Moved) -> None:
    moved.hand_over(lessee=LESSEE)
    for caller in (moved.new, moved.lessee):
        for path in (f"{moved.path}/holds", "/v1/holds"):
            [shown] = caller.get(path).json["holds"]
            assert (shown["uuid"], shown["kind"], shown["reason"]) == (moved.hold, "freeze", None)
    assert moved.admin.get("/v1/holds").json["holds"][0]["reason"] == SECRET
    refused = moved.new.put(f"{moved.path}/states/provision", {"target": "provide"})
    assert refused.status == 409
    assert moved.hold in refused.text
    assert SECRET not in refused.text
    refused = moved.admin.put(f"{moved.path}/states/provision", {"target": "provide"})
    assert SECRET in refused.text


def test_run_under_way_is_shown_to_all_who_may_read_the_node(moved: Moved) -> None:
    run = moved.add_run(OLD, "running")
    moved.hand_over(lessee=LESSEE)
    for caller in (moved.new, moved.lessee):
        for path in (f"{moved.path}/runs", "/v1/runs"):
            assert [one["uuid"] for one in caller.get(path).json["runs"]] == [run]
        assert caller.get(f"{moved.path}/runs/current").json["uuid"] == run
        assert caller.get(f"/v1/runs/{run}").status == 200
        assert caller.get(f"{moved.path}/runs/{run}/log").status == 403
    moved.database.write(lambda conn: runs.update(conn, run, {"state": "done"}))
    for caller in (moved.new, moved.lessee):
        assert caller.get(f"/v1/runs/{run}").status == 404
        assert caller.get("/v1/runs").json["runs"] == []


def _ends_at_the_second_look(moved: Moved, run: str) -> As:
    """Return NEW as a client whose wait for a run goes on when the run has failed meanwhile."""

    def end_run() -> None:
        values = {"state": "failed", "ended_at": clock.now()}
        moved.database.write(lambda conn: runs.update(conn, run, values))

    waiting = WaitingApplication(moved.new.app, moved.database, end_run)
    return Callers(waiting)("admin", NEW)


@pytest.mark.parametrize("path", ["{path}/runs/{run}", "{path}/runs/current", "/v1/runs/{run}"])
def test_waiting_new_owner_gets_the_state_of_the_run_alone(moved: Moved, path: str) -> None:
    run = moved.add_run(OLD, "running")
    arguments = {"path": moved.path, "run": run}
    _add_step(moved, run)
    moved.hand_over()
    under_way = moved.new.get(path.format(**arguments))
    caller = _ends_at_the_second_look(moved, run)
    ended = caller.get(f"{path.format(**arguments)}?wait=30")
    for answer, state in ((under_way, "running"), (ended, "failed")):
        assert (answer.status, answer.json["state"]) == (200, state), answer.body.decode()
        shown = [answer.json[name] for name in ("steps", "eta", "error")]
        assert shown == [[], None, None]
        assert SECRET not in answer.body.decode()
    whole = moved.admin.get(f"/v1/runs/{run}")
    assert whole.json["steps"][0]["args"] == {"note": SECRET}
    assert whole.json["error"]["text"] == SECRET


@pytest.mark.parametrize("path", ["{path}/runs/current", "/v1/runs/{run}"])
def test_refused_wait_of_the_new_owner_has_no_error_of_the_run(moved: Moved, path: str) -> None:
    run = moved.add_run(OLD, "running")
    moved.hand_over()
    caller = _ends_at_the_second_look(moved, run)
    refused = caller.get(f"{path.format(path=moved.path, run=run)}?wait=30&until=done")
    assert refused.status == 424
    assert "has ended as failed" in refused.body.decode()
    assert SECRET not in refused.body.decode()


@pytest.mark.feature("why")
def test_reason_of_a_stop_is_for_the_projects_of_its_run(moved: Moved) -> None:
    run = moved.add_run(OLD, "waiting")
    moved.hand_over()
    stop = Stop(run, How.HOLD, None, SECRET, "olga", clock.now().isoformat(), StopProgress.DONE)
    held = {"provision_state": "clean hold", "run_uuid": run, "run_stop": stop.text}
    moved.database.write(
        lambda conn: conn.execute(
            models.nodes.update().where(models.nodes.c.uuid == moved.node).values(held)
        )
    )
    for path in (f"{moved.path}/runs", "/v1/runs"):
        listed = f"{path}?fields=uuid,stop"
        [shown] = moved.new.get(listed).json["runs"]
        assert (shown["uuid"], shown["stop"]["how"], shown["stop"]["reason"]) == (run, "hold", "")
        assert SECRET in moved.admin.get(listed).body.decode()
    assert SECRET not in moved.new.get(f"{moved.path}/why").body.decode()
    assert SECRET in moved.admin.get(f"{moved.path}/why").body.decode()


RETRY: dict[str, Any] = {"target": "retry"}


@pytest.mark.parametrize(
    "way", ["verb", "plan", pytest.param("batch", marks=pytest.mark.feature("batches"))]
)
@pytest.mark.parametrize("lessee", [None, LESSEE])
def test_projects_do_not_repeat_steps_of_former_users(
    moved: Moved, way: str, lessee: str | None
) -> None:
    """The plan, and the run of the retry, would show these steps with their arguments."""
    run = moved.add_run(OLD, "failed")
    step = {"interface": "deploy", "step": "erase_devices", "args": {"note": SECRET}}
    listed = {"kind": "clean", "requested": True, "steps": [step]}
    moved.hand_over(OLD if lessee else NEW, lessee)
    moved.database.write(lambda conn: runs.update(conn, run, {"listed": listed}))
    of_node = models.nodes.update().where(models.nodes.c.uuid == moved.node)
    moved.database.write(lambda conn: conn.execute(of_node.values(provision_state="clean failed")))
    assert moved.new.delete(f"{moved.path}/holds/{moved.hold}").status in {204, 404}
    assert moved.admin.delete(f"{moved.path}/holds/{moved.hold}").status == 204

    def ask(caller: As) -> Response:
        if way == "batch":
            body = {"nodes": [moved.node], "request": RETRY}
            return caller.post("/v1/batches?plan=true", body)
        if way == "plan":
            return caller.post(f"{moved.path}/plan", RETRY)
        return caller.put(f"{moved.path}/states/provision", RETRY)

    for caller in (moved.lessee,) if lessee else (moved.new,):
        refused = ask(caller)
        if caller is moved.lessee and way == "plan":
            assert refused.status == 403
        else:
            assert refused.status == 400, refused.body
            assert "another owner or lessee" in refused.text
        assert SECRET not in refused.body.decode()
    for caller in (moved.old, moved.admin) if lessee else (moved.admin,):
        assert "another owner or lessee" not in ask(caller).body.decode()


def test_refused_retry_of_a_run_from_before_the_upgrade_says_that_it_has_no_owner(
    moved: Moved,
) -> None:
    assert moved.admin.delete(f"{moved.path}/holds/{moved.hold}").status == 204
    run = moved.add_run(OLD, "failed")
    moved.database.write(lambda conn: runs.update(conn, run, {"owner": None}))
    of_node = models.nodes.update().where(models.nodes.c.uuid == moved.node)
    moved.database.write(lambda conn: conn.execute(of_node.values(provision_state="clean failed")))
    answer = moved.old.put(f"{moved.path}/states/provision", RETRY)
    assert answer.status == 400
    assert "has no owner" in answer.text
    assert "a caller with system scope" in answer.text


def _add_step(moved: Moved, run: str) -> None:
    row = {
        **{"run_uuid": run, "ordinal": 0, "kind": "clean", "interface": "deploy"},
        **{"step": "erase_devices", "args": {"note": SECRET}, "state": "running"},
    }
    moved.database.write(
        lambda conn: conn.execute(models.run_steps.insert().values(abortable=False, **row))
    )


@pytest.mark.feature("events")
def test_rows_without_an_owner_are_for_the_system_scope(moved: Moved) -> None:
    run = moved.add_run(None, "failed")
    moved.hand_over(OLD)

    def forget(conn: Connection) -> None:
        for table in (models.events, models.runs):
            conn.execute(table.update().values(owner=None))

    moved.database.write(forget)
    assert moved.old.get(f"/v1/runs/{run}").status == 404
    assert run not in [one["uuid"] for one in moved.old.get("/v1/runs").json["runs"]]
    assert moved.kinds(moved.old) == []
    assert moved.admin.get(f"/v1/runs/{run}").status == 200


@pytest.mark.feature("events")
def test_owners_feed_shows_what_was_done_on_its_deleted_node(moved: Moved) -> None:
    before = moved.kinds(moved.old)
    moved.hand_over()

    def destroy(conn: Connection) -> None:
        conn.execute(models.nodes.delete().where(models.nodes.c.uuid == moved.node))
        row = {"at": clock.now(), "node_uuid": moved.node, "kind": "node_deleted", "owner": NEW}
        events.add(conn, [row])

    moved.database.write(destroy)
    assert moved.kinds(moved.old) == [*before, "node_updated"]
    assert moved.kinds(moved.new) == ["node_updated", "node_deleted"]
    assert moved.lists(moved.old)["erasures"] == [moved.erasure]
    assert moved.lists(moved.new)["erasures"] == []
