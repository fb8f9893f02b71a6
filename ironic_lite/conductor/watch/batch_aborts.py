"""Aborts of the runs of a batch: each conductor aborts the runs of its own nodes."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence

from ironic_lite import errors
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import batch_results
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.conductor.work import rights
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batch_sweeps, batches, events, nodes, run_stops
from ironic_lite.domain import batches as core
from ironic_lite.domain import history, states, verbs
from ironic_lite.domain.run_stops import How, Progress, Stop, ends_uncleaned, stoppable
from ironic_lite.domain.states import Kind, State
from ironic_lite.rpc import interface

LOG = logging.getLogger(__name__)
_STOPPED = "The batch was aborted."
_ABORT = verbs.BY_TARGET["abort"]
_COLUMNS = ("uuid", "owner", "lessee", *history.STANDING, "run_uuid", "run_stop", "automated_clean")


class Aborts:
    """Aborts runs: at their next step where they have steps, else by the verb ``abort``.

    A node is tried again when it has changed, or after a refusal that may pass by itself, such as
    a lock, so that waiting runs cost one statement for all.
    """

    def __init__(self, tasks: Tasks, fleet: Ownership, conductor: interface.Conductor) -> None:
        self._database = tasks.runtime.database
        self._fleet = fleet
        self._conductor = conductor
        self._settings = tasks.runtime.conf.conductor
        self._tried: Mapping[str, int] = {}

    def sweep(self, uuids: Sequence[str]) -> None:
        """Abort the own runs under way in these batches."""
        if not uuids:
            return
        found = self._database.read(lambda conn: batch_sweeps.under_way(conn, uuids))
        mine = [row for row in found if self._fleet.mine({**row, "uuid": row["node_uuid"]})]
        callers: dict[str, Row] = {}
        tried: dict[str, int] = {}
        for row in mine:
            run, generation = row["run_uuid"], row["generation"]
            if self._tried.get(run) == generation or self._abort(row, callers):
                tried[run] = generation
        self._tried = tried

    def _abort(self, row: Row, callers: dict[str, Row]) -> bool:
        """Abort a run; return False if it is to be tried again although nothing has changed."""
        batch, node, run = row["batch_uuid"], row["node_uuid"], row["run_uuid"]
        try:
            if batch not in callers:
                read = functools.partial(batches.get, uuid=batch, columns=("context",))
                callers[batch] = self._database.read(read)["context"]
            ident = core.request_id(batch, node, "abort")
            owners = (node, row["owner"], row["lessee"])
            who = Context.from_dict({**callers[batch], "request_id": ident, "owners": owners})
            state = State(row["provision_state"])
            cleans = self._settings.automated_clean_enable
            if _may_stop(row, cleans=cleans):
                if not _asked(row["run_stop"], run):
                    about = {"node": node, "run": run, "who": who, "cleans": cleans}
                    self._database.write(functools.partial(_stop, **about))
                if states.kind(state) is Kind.WAIT:
                    self._conductor.stop_run(who, node_uuid=node, run_uuid=run)
            elif verbs.possible(_ABORT, state):
                self._conductor.do_provisioning_action(who, node_uuid=node, action="abort")
        except errors.Error as why:
            LOG.debug("Batch %s, node %s: not aborted: %s", batch, node, why)
            return not batch_results.may_pass(why)
        except Exception:  # drivers may raise anything
            LOG.exception("Batch %s, node %s: the abort failed", batch, node)
        return True


def _may_stop(row: RowView, *, cleans: bool) -> bool:
    state = State(row["provision_state"])
    if ends_uncleaned(state, row["automated_clean"], cleans=cleans):
        return False
    return stoppable(state) and states.kind(state) is not Kind.HELD


def _asked(text: str | None, run: str) -> bool:
    known = Stop.read(text, run)
    if known is None:
        return False
    return known.progress is Progress.TAKEN or (known.how is How.ABORT and known.after is None)


def _stop(conn: Connection, node: str, run: str, who: Context, *, cleans: bool) -> None:
    """Ask for the abort of a run at its next step; a repetition changes nothing."""
    row: RowView = nodes.get(conn, node, _COLUMNS, hold=True)
    rights.check_owners(who, node, row["owner"], row["lessee"])
    if row["run_uuid"] != run or _asked(row["run_stop"], run):
        return
    if not _may_stop(row, cleans=cleans):
        return
    now = clock.now()
    wanted = Stop(run, How.ABORT, None, _STOPPED, who.user, now.isoformat())
    run_stops.put(conn, node, run, wanted.text)
    facts = {"how": str(wanted.how), "after": wanted.after, "reason": wanted.reason}
    told = {
        "at": now,
        "node_uuid": node,
        "kind": "stop_requested",
        "event": str(wanted.how),
        "run_uuid": run,
        **who.recorded(),
        "data": {**history.standing_of(row), "project": who.project, **facts},
    }
    events.add(conn, [told])
