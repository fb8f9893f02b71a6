"""The commands that are one request, and the few that do little more."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ironicclient import exc
from ironicclient.common import utils

from ironic_lite_cli import progress, rows
from ironic_lite_cli.http_api import Json, JsonView, in_commands
from ironic_lite_cli.rows import BATCH, NODE, Argument, OneOf, Row, flag, limit

# Batches.


def _read_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not <field>=<value>")
    return name, value


_DIGEST = 16
"""Length of a digest, which may have digits alone."""


def _read_size(text: str) -> int | str:
    """Return a number of nodes; a share as it is, for the service to check."""
    if text.endswith("%"):
        return text
    try:
        return int(text)
    except ValueError as why:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number, or a share such as 10%"
        ) from why


def _read_sizes(text: str) -> list[int | str]:
    return [_read_size(word.strip()) for word in text.split(",")]


def _read_request(text: str) -> Json:
    """Return the request that each node gets.

    :raises exc.CommandError: a file cannot be read, or is not JSON.
    """
    if text == "-" or text.startswith("@"):
        try:
            text = sys.stdin.read() if text == "-" else Path(text[1:]).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as why:
            raise exc.CommandError(f"The request cannot be read: {why}") from why
    elif not text.lstrip().startswith("{"):
        is_power = text == "reboot" or text.startswith(("power ", "soft "))
        kind = "power" if is_power else "target"
        return {kind: text}
    try:
        found = json.loads(text)
    except ValueError as why:
        raise exc.CommandError(f"The request is not JSON: {why}") from why
    if not isinstance(found, dict):
        raise exc.CommandError('The request is not a JSON object such as {"target": "manage"}.')
    return found


def _batch_row(batch: JsonView) -> Json:
    """Return the values of a batch for the list."""
    counts = batch["counts"]
    return {
        **batch,
        "wave": f"{batch['wave'] + 1}/{len(batch['waves'])}",
        "nodes": sum(counts.values()),
        "ended": sum(counts[name] for name in progress.BATCH_ENDED),
        "failed": sum(counts[name] for name in progress.BATCH_FAILED),
    }


class CreateBatch(rows.ShowOne):
    """Begin a batch: send one request to many nodes, in waves."""

    arguments = (
        Argument(
            "request",
            "A provision target such as manage, a power state such as 'power off', or the "
            "request as JSON; @<file> reads JSON from a file, - from standard input.",
        ),
        OneOf(
            Argument("--node", "One of the nodes.", more={"action": "append"}),
            Argument(
                "--filter",
                "All nodes with this value. May be given several times.",
                "<field>=<value>",
                {"action": "append", "type": _read_pair},
            ),
            Argument("--failed-of", "Nodes that failed there.", "<batch>"),
        ),
        Argument(
            "--expect",
            "Number of nodes that must be chosen. Without it, a plan takes the present number, and "
            "a terminal asks before the batch begins.",
            "<number>",
            {"type": int},
        ),
        flag(
            "--leave-out",
            "Leave out nodes that cannot get the request; --plan lists them.",
            "unfit",
            "leave out",
        ),
        Argument(
            "--expect-fit",
            "Digest or number of the nodes that are not left out, as a plan shows them in fit.",
            "<digest>|<number>",
            {"type": lambda text: int(text) if text.isdecimal() and len(text) < _DIGEST else text},
        ),
        *(
            Argument(
                f"--{kind}-steps",
                f"Steps of the target {target}: JSON, a file with it, or - for standard input.",
                "<steps>",
            )
            for kind, target in (("clean", "clean"), ("deploy", "active"), ("service", "service"))
        ),
        Argument("--name", "A text for operators."),
        Argument(
            "--waves",
            "Numbers of nodes or shares, such as 1,10%%,100%%. Default: one wave.",
            "<size>[,<size>]",
            {"type": _read_sizes},
        ),
        Argument("--concurrency", "Most nodes at once. Default: 10.", "<number>", {"type": int}),
        Argument(
            "--max-failures",
            "Number or share of nodes that may fail. Default: 0.",
            "<number>",
            {"type": _read_size},
        ),
        Argument("--on-failures", "Default: pause.", None, {"choices": ("pause", "abort")}),
        flag("--pause-between-waves", "Each wave waits for a resume.", "between_waves", "pause"),
        flag("--plan", "Show the batch; begin nothing.", value="true"),
    )
    _MEMBERS = (
        *("name", "expect", "expect_fit", "unfit", "waves", "concurrency"),
        *("max_failures", "on_failures", "between_waves"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Begin the batch, and return names and values."""
        given = vars(parsed_args)
        nodes: Any = parsed_args.node or dict(parsed_args.filter or ())
        if parsed_args.failed_of:
            nodes = {"batch": parsed_args.failed_of, "result": "failed"}
        request = _read_request(parsed_args.request)
        for name in ("clean_steps", "deploy_steps", "service_steps"):
            if given[name] is not None:
                request[name] = utils.handle_json_arg(given[name], name.replace("_", " "))
        body: Json = {"nodes": nodes, "request": request}
        body |= {name: given[name] for name in self._MEMBERS if given[name] is not None}
        if isinstance(nodes, dict) and parsed_args.expect is None:
            body["expect"] = self._count(nodes, plan=parsed_args.plan is not None)
        found = self.api.change("POST", "batches", body=body, plan=parsed_args.plan)
        return _SHOW_BATCH.values(found)

    def _count(self, chosen: Json, *, plan: bool) -> int:
        """Return the number of nodes that a filter chooses now, if it begins nothing unasked.

        :raises exc.CommandError: the batch would begin, and nobody is asked or agrees.
        """
        if "batch" in chosen:
            found = self.api.batch_nodes(chosen["batch"], chosen["result"])
        else:
            found = self.api.nodes("nodes", **chosen, fields="uuid")
        count = sum(1 for _ in found)
        if plan:
            return count
        if not sys.stdin.isatty():
            raise exc.CommandError(f"Repeat the number of nodes: --expect {count}")
        print(f"This begins a batch of {count} nodes. Go on? [y/N] ", end="", file=self.app.stderr)
        self.app.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise exc.CommandError("The batch was not begun.")
        return count


_SHOW_BATCH = Row("Show a batch.", "batches/{batch}", (BATCH,), read=progress.batch_columns)
batch_show = _SHOW_BATCH.command()
batch_list = Row(
    "List batches, the newest first.",
    "batches",
    (
        flag("--open", "Only batches that go on.", "state", "running,paused"),
        limit("Number of batches."),
    ),
    lists="batches",
    columns="uuid name state wave nodes ended failed requester created_at",
    read=_batch_row,
).command()


def _batch_change(about: str, target: str, *arguments: Argument) -> type[rows.Command]:
    """Return a command that changes the state of a batch."""
    return Row(
        about,
        "batches/{batch}/state",
        (BATCH, *arguments),
        method="PUT",
        fixed={"target": target},
        read=progress.batch_columns,
    ).command()


batch_pause = _batch_change("Start no further node of a batch until it is resumed.", "pause")
batch_resume = _batch_change(
    "Continue a paused batch; the failures so far do not count any more.",
    "resume",
    Argument(
        "--max-failures",
        "Number or share of nodes that may fail from now on. Default: as before.",
        "<number>",
        {"type": _read_size},
    ),
)
batch_abort = _batch_change(
    "Skip the nodes of a batch that have not started.",
    "abort",
    flag("--runs", "Abort the runs under way too, at their next step.", "runs", "abort", "go on"),
)
batch_delete = Row(
    "Delete a batch that has ended; the runs of its nodes stay.",
    "batches/{batch}",
    (BATCH,),
    method="DELETE",
).command()


class ListBatchNodes(rows.Lister):
    """List the nodes of a batch with their results, in the order of their start."""

    arguments = (
        BATCH,
        Argument("--result", "Only these, such as failed,refused.", "<result>[,<result>]"),
    )
    _COLUMNS = ("name", "uuid", "wave", "result", "run", "error", "started_at", "ended_at")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the columns and a row for each node."""
        found = self.api.batch_nodes(parsed_args.batch, parsed_args.result)
        return self._COLUMNS, [self._row(one) for one in found]

    def _row(self, node: JsonView) -> list[Any]:
        error = node["error"] or {}
        words = [str(error[name]) for name in ("code", "text") if error.get(name)]
        return [{**node, "error": ": ".join(words)}[name] for name in self._COLUMNS]


# The service.


class Doctor(rows.Lister):
    """Examine the service, and a node if it is named; what is wrong comes first.

    Exit status 0: all is well. 1: a warning, or a check that could not be made. 2: a check has
    failed.
    """

    arguments = (
        Argument("--node", "Examine this node, too: name or UUID."),
        flag("--bad", "List only checks with another result than ok."),
    )
    _COLUMNS = ("status", "where", "name", "text", "do")
    _ORDER = ("failed", "warning", "unknown", "ok")
    status = 1
    """The exit status; that of a warning until an answer has come."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line; tables fit the terminal."""
        parser = super().get_parser(prog_name)
        parser.set_defaults(fit_width=True)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the columns and a row for each check."""
        found = self.api.get("doctor", node=parsed_args.node)
        self.status = {"ok": 0, "failed": 2}.get(found["status"], self.status)
        checks = [one for one in found["checks"] if not parsed_args.bad or one["status"] != "ok"]
        rank = {word: place for place, word in enumerate(self._ORDER)}
        checks.sort(key=lambda one: rank.get(one["status"], rank["warning"]))
        texts = ([one[name] or "" for name in self._COLUMNS] for one in checks)
        return self._COLUMNS, [[in_commands(str(text)) for text in row] for row in texts]

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the list; return the exit status of the worst check."""
        return int(super().run(parsed_args)) or self.status


def _cause_line(cause: JsonView) -> Json:
    what = cause["text"] if cause["kind"] != "health" else f"health {cause['text']}"
    if cause["verb"]:
        at = f" at {cause['step']}" if cause["step"] else ""
        failed = "is overdue" if cause["kind"] == "overdue" else "failed"
        why = "" if cause["kind"] == "overdue" else f": {what}"
        what = f"{cause['verb']} {failed}{at}{why}"
    names = [one["name"] or one["uuid"] for one in cause["sample"]]
    left = ", ..." if cause["nodes"] > len(names) else ""
    return {
        "nodes": cause["nodes"],
        "what": what,
        "oldest": cause["first_at"],
        "sample": ", ".join(names) + left,
        "next": cause["do"],
    }


def _batch_line(batch: JsonView) -> Json:
    ended = batch["done"] + batch["failed"]
    state = f"{batch['state']}, {batch['failed']} failed" if batch["failed"] else batch["state"]
    paused = batch["state"] == "paused"
    return {
        "nodes": f"{ended}/{batch['nodes']}",
        "what": f"batch {batch['name'] or batch['uuid']}: {state}",
        "next": f"baremetal batch resume {batch['uuid']}" if paused else None,
    }


def _attention_lines(found: JsonView) -> Iterator[Json]:
    """Yield the lines of the document of what needs a person."""
    yield from map(_cause_line, found["causes"])
    if found["causes_left_out"]:
        yield {"nodes": found["causes_left_out"], "what": "of causes that are not listed"}
    yield from map(_batch_line, found["batches"] or ())
    for one in found["conductors"] or ():
        yield {"what": f"conductor {one['hostname']} is dead", "oldest": one["seen_at"]}
    for one in found["webhooks"] or ():
        yield {"what": f"webhook {one['uuid']} is {one['state']}, {one['behind']} events behind"}
    for one in found["findings"] or ():
        about = f"{one['where']}, {one['name']}: {one['text']}"
        yield {"what": about, "oldest": one["at"], "next": one["do"]}


class Attention(rows.Lister):
    """List what needs a person: a line for each cause, however many nodes it has.

    Exit status 0: nothing. 1: a warning. 2: critical. 3: no answer. ``-f json`` prints the whole
    document.
    """

    arguments = (
        Argument(
            "--filter",
            "Only nodes with this value. May be given several times.",
            "<field>=<value>",
            {"action": "append", "type": _read_pair, "default": []},
        ),
        limit("Number of causes, 100 at most."),
    )
    _COLUMNS = ("nodes", "what", "oldest", "sample", "next")
    _STATUS = ("ok", "warning", "critical")
    _NO_ANSWER = 3
    status = _NO_ANSWER

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the columns and a row for each line."""
        found = self._read(parsed_args)
        lines = _attention_lines(found)
        shown = ({**one, "next": in_commands(one.get("next") or "")} for one in lines)
        return self._COLUMNS, [[one.get(name) or "" for name in self._COLUMNS] for one in shown]

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the list; return the exit status."""
        try:
            if parsed_args.formatter == "json":
                print(json.dumps(self._read(parsed_args), indent=2), file=self.app.stdout)
            else:
                super().run(parsed_args)
        except Exception as why:
            print(why, file=self.app.stderr)
            return self._NO_ANSWER
        return self.status

    def _read(self, parsed_args: argparse.Namespace) -> Json:
        asked = {**dict(parsed_args.filter), "limit": parsed_args.limit}
        found: Json = self.api.get("attention", **asked)
        self.status = self._STATUS.index(found["status"])
        return found


# The search for nodes.

node_search = Row(
    "Find nodes by the start of a value or word, such as a name, serial number or MAC address.",
    "search",
    (
        Argument("q", "The text: 2 to 64 characters."),
        limit("Number of hits, 100 at most. Default: 20."),
    ),
    lists="hits",
    columns="uuid name field value provision_state",
).command()

# Events and webhooks.

EVENT_COLUMNS = "cursor at name kind event before after"
_SINCE = "A cursor, 0 for all stored events, now, a time, or a duration such as 12h."
EVENT_FILTERS = (
    Argument("--since", _SINCE, "<cursor>"),
    Argument("--node", "Only events of these nodes."),
    Argument("--kind", "Only events of these kinds."),
    Argument("--requester", "Only events of the requests of this user.", "<user>"),
)
_WEBHOOK = Argument("webhook", "UUID of the webhook.")
_WEBHOOK_FILTERS = tuple(
    Argument(
        f"--{name}",
        f"{what}. May be given several times. Default: all.",
        more={"action": "append", "dest": f"{name}s"},
    )
    for name, what in (("kind", "Kind of the events to send"), ("node", "Name or UUID of a node"))
)
_WEBHOOK_COLUMNS = "uuid url state cursor last_status failing_since"
_WEBHOOK_DETAILS = f"{_WEBHOOK_COLUMNS} kinds nodes secret last_error created_by created_at"


def event_row(event: Json) -> Json:
    """Return the values of an event; changed fields are what was before and after."""
    changes = (event.get("data") or {}).get("changes") or ()
    sides = {
        side: "; ".join(f"{one['path']}={_changed(one, key)}" for one in changes)
        for side, key in (("before", "old"), ("after", "new"))
    }
    return {**event, **(sides if changes else {})}


def _changed(change: JsonView, side: str) -> str:
    """Return the old or new value of a change, or its length if the value is long."""
    if (length := change.get(f"{side}_length")) is not None:
        return f"({length} characters)"
    value = change.get(side)
    return value if isinstance(value, str) else json.dumps(value)


event_list = Row(
    "List events, the oldest first.",
    "events",
    (
        *EVENT_FILTERS,
        Argument("--before", "Only events before this time, or up to this cursor.", "<cursor>"),
        limit("Number of events."),
    ),
    lists="events",
    columns=EVENT_COLUMNS.replace(" name", " requester name"),
    read=event_row,
).command()
webhook_create = Row(
    "Add a webhook, and show its secret, which is not shown again.",
    "webhooks",
    (
        Argument("url", "Where to send events, with https."),
        Argument("--since", "A cursor, 0, or now (default).", "<cursor>"),
        *_WEBHOOK_FILTERS,
    ),
    method="POST",
    columns=_WEBHOOK_DETAILS,
).command()
webhook_list = Row(
    "List all webhooks.", "webhooks", lists="webhooks", columns=_WEBHOOK_COLUMNS
).command()
webhook_show = Row(
    "Show a webhook without its secret.",
    "webhooks/{webhook}",
    (_WEBHOOK,),
    columns=_WEBHOOK_DETAILS,
).command()
webhook_set = Row(
    "Change a webhook, pause it, or resume it.",
    "webhooks/{webhook}",
    (
        _WEBHOOK,
        Argument("--url", "Where to send events."),
        Argument("--state", "Resume or pause.", None, {"choices": ("active", "paused")}),
        flag("--new-secret", "Make a new secret, and show it once.", "secret", rows.REMOVE),
        *_WEBHOOK_FILTERS,
    ),
    method="PATCH",
    columns=_WEBHOOK_DETAILS,
).command()
webhook_unset = Row(
    "Remove filters of a webhook, so that it receives all events.",
    "webhooks/{webhook}",
    (
        _WEBHOOK,
        flag("--kinds", "Send events of all kinds.", value=rows.REMOVE),
        flag("--nodes", "Send events of all nodes.", value=rows.REMOVE),
    ),
    method="PATCH",
    columns=_WEBHOOK_DETAILS,
).command()
webhook_delete = Row(
    "Remove a webhook.", "webhooks/{webhook}", (_WEBHOOK,), method="DELETE"
).command()
webhook_replay = Row(
    "Send events again, from an earlier cursor or from a failed delivery.",
    "webhooks/{webhook}/replay",
    (
        _WEBHOOK,
        OneOf(
            Argument("--since", "Send the events after this one.", "<cursor>"),
            Argument("--failed", "Send again from this failed delivery on.", "<id>", {"type": int}),
        ),
    ),
    method="POST",
    columns=_WEBHOOK_DETAILS,
).command()


# Erasure records, and the state of a node's data.


def _erasure_row(record: Json) -> Json:
    return {**record, "serials": ",".join(record["serials"])}


erasure_list = Row(
    "List erasure records, the newest first.",
    "erasures",
    (
        Argument("--node", "Name or UUID of a node; the UUID of a deleted one."),
        Argument("--serial", "Serial number of a disk."),
        Argument("--result", "complete, partial, failed or unknown."),
        Argument("--since", "A time such as 2030-01-31T18:00:00Z, or 24h.", "<time>"),
        limit("Number of records."),
    ),
    lists="erasures",
    columns="uuid at node_name node_uuid result level serials key",
    read=_erasure_row,
).command()
erasure_show = Row(
    "Show an erasure record.", "erasures/{erasure}", (Argument("erasure", "UUID of the record."),)
).command()
_DATA_STATE_COLUMNS = "uuid name data_state data_state_at data_state_by"
_SHOW_DATA_STATE = Row(
    "Show the state of a node's data: clean, dirty or unknown.",
    "nodes/{node}",
    (NODE,),
    fixed={"fields": _DATA_STATE_COLUMNS.replace(" ", ",")},
    columns=_DATA_STATE_COLUMNS,
)
data_state_show = _SHOW_DATA_STATE.command()


class SetDataState(rows.ShowOne):
    """Declare the state of a node's data, and show it."""

    arguments = (
        NODE,
        Argument("state", "The state.", more={"choices": ("clean", "dirty", "unknown")}),
        Argument("--reason", "How you know; it is in the event.", more={"required": True}),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Declare the state; return names and values."""
        body = {"data_state": parsed_args.state, "reason": parsed_args.reason}
        self.api.change("PUT", "nodes", parsed_args.node, "data_state", body=body)
        return _SHOW_DATA_STATE.values(_SHOW_DATA_STATE.send(self.api, parsed_args))


class CreatePort(rows.ShowOne):
    """Add a port to a node, and show it."""

    arguments = (
        NODE,
        Argument("address", "MAC address of the network card."),
        Argument("--name", "Name of the port."),
        Argument("--physical-network", "Physical network of the port.", "<network>"),
        flag("--no-pxe", "The machine does not boot from this port.", "pxe_enabled", False),
    )
    _COLUMNS = ("uuid", "node_uuid", "address", "name", "pxe_enabled", "physical_network")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Add the port; return names and values."""
        node = self.api.get("nodes", parsed_args.node, fields="uuid")["uuid"]
        given = {name: getattr(parsed_args, name, None) for name in self._COLUMNS[2:]}
        body = {name: value for name, value in given.items() if value is not None}
        found = self.api.change("POST", "ports", body={"node_uuid": node, **body})
        return self._COLUMNS, [found.get(name) for name in self._COLUMNS]


# Holds: reasons to leave a node alone.

_HOLD_COLUMNS = "uuid node_uuid kind reason blocks until created_by created_at"
_BLOCKS = ("erase", "use", "verbs", "power", "machine", "forget")


def _hold_row(hold: Json) -> Json:
    return {**hold, "blocks": ",".join(hold["blocks"])}


hold_create = Row(
    "Hold a node: refuse classes of operations until the hold ends.",
    "nodes/{node}/holds",
    (
        NODE,
        Argument(
            "--kind",
            "legal, hardware, freeze or observe, which bring their blocks; or a word of your own.",
            more={"required": True},
        ),
        Argument("--reason", "Text for other operators.", more={"required": True}),
        Argument(
            "--until",
            "End of the hold, such as 2030-01-31T18:00:00Z. Default: it is ended by request.",
            "<time>",
        ),
        Argument(
            "--block",
            f"Class of refused operations: {', '.join(_BLOCKS)}. May be given several times.",
            more={"choices": _BLOCKS, "action": "append", "dest": "blocks"},
        ),
    ),
    method="POST",
    columns=_HOLD_COLUMNS,
    read=_hold_row,
).command()


class ListHolds(rows.Lister):
    """List the holds of a node, or of all nodes, with the names of the nodes."""

    arguments = (
        Argument("node", NODE.help, more={"nargs": "?"}),
        Argument("--kind", "Only holds of this kind."),
        flag("--ended", "Also holds that have ended.", value="true"),
    )
    _AT_ONCE = 150  # UUIDs of one request

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the columns and a row for each hold."""
        given = {name: getattr(parsed_args, name) for name in ("node", "kind", "ended")}
        found = self.api.get("holds", **given)["holds"]
        columns = _HOLD_COLUMNS.replace("uuid ", "uuid node_name ", 1).split()
        if parsed_args.ended:
            columns += ["ended_at", "ended_by", "end_reason"]
        names = self._names([hold["node_uuid"] for hold in found])
        shown = [{**_hold_row(hold), "node_name": names.get(hold["node_uuid"])} for hold in found]
        return columns, [[hold.get(name) for name in columns] for hold in shown]

    def _names(self, uuids: Sequence[str]) -> dict[str, str]:
        wanted, names = sorted(set(uuids)), {}
        for first in range(0, len(wanted), self._AT_ONCE):
            some = ",".join(wanted[first : first + self._AT_ONCE])
            for node in self.api.nodes("nodes", uuid=some, fields="uuid,name"):
                names[node["uuid"]] = node["name"]
        return names


hold_delete = Row(
    "End a hold of a node.",
    "nodes/{node}/holds/{hold}",
    (
        NODE,
        Argument("hold", "UUID of the hold."),
        Argument("--reason", "Why the hold ends."),
        flag("--unread", "Also of a node whose BMC has not answered yet.", value="true"),
    ),
    method="DELETE",
).command()

# Imports from Ironic.

import_list = Row(
    "List the imports from Ironic, the newest first.",
    "imports",
    (limit("Number of imports."),),
    lists="imports",
    columns="uuid at by release trial nodes observed unread",
).command()
import_show = Row(
    "Show an import from Ironic with its findings.",
    "imports/{import}",
    (Argument("import", "UUID of the import."),),
).command()


# Runs, and the statistics of their steps.

_RUN_FIELDS = "uuid,node_uuid,node_name,verb,state,code,started_at,ended_at,duration_seconds,error"


def _run_row(run: JsonView) -> Json:
    """Return the values of a run; step and text are those of its error."""
    error = run["error"] or {}
    node = run["node_name"] or run["node_uuid"]
    return {**run, "node": node, "step": error.get("step"), "text": error.get("text")}


def _step_row(group: Json) -> Json:
    values = {name: "" if value is None else value for name, value in group.items()}
    codes = ", ".join(f"{code} {count}" for code, count in group["codes"].items())
    return {**values, "step": f"{group['interface']}.{group['step']}", "codes": codes}


run_list = Row(
    "List the runs of all nodes, the newest first.",
    "runs",
    (
        Argument(
            "--state", "Only runs in these states, such as failed,aborted.", "<state>[,<state>]"
        ),
        Argument("--verb", "Only runs of these verbs.", "<verb>[,<verb>]"),
        Argument("--node", "Only runs of this node, by its name or UUID."),
        Argument("--requester", "Only runs that this user has requested.", "<user>"),
        Argument("--driver", "Only runs of nodes with these drivers.", "<driver>[,<driver>]"),
        Argument(
            "--resource-class",
            "Only runs of nodes of these resource classes.",
            "<class>[,<class>]",
        ),
        Argument(
            "--code",
            "Only runs whose error has one of these codes as its cause.",
            "<code>[,<code>]",
        ),
        Argument("--cause", "Only runs that failed by one of these causes.", "<key>[,<key>]"),
        Argument(
            "--since",
            "Only runs begun at this time or later; or 12h for 12 hours ago.",
            "<time>",
        ),
        Argument("--before", "Only runs begun before this time, or 2h.", "<time>"),
        Argument("--batch", "Only runs that this batch has started."),
        Argument("--retry-of", "Only runs that repeat this run.", "<run>"),
        # Not --project, which is a global option of some clients.
        Argument(
            "--of-project",
            "Only runs that this project has requested.",
            "<project>",
            {"dest": "project"},
        ),
        flag("--latest", "Only the newest run of each node.", value="true"),
        flag(
            "--overdue",
            "Only runs with a step that takes much longer than usual, the longest first.",
            value="true",
        ),
        limit("Number of runs."),
        flag(
            "--long",
            "Also show requester, conductor and error text.",
            "fields",
            f"{_RUN_FIELDS},requester,project,request_id,conductor",
            default=_RUN_FIELDS,
            columns="ended_at requester project request_id conductor text",
        ),
    ),
    lists="runs",
    columns="uuid node verb state step code started_at duration_seconds",
    read=_run_row,
).command()
run_show = Row(
    "Show a run with its steps.",
    "runs/{run}",
    (Argument("run", "UUID of the run."),),
    read=progress.run_columns,
).command()
node_run_list = Row(
    "List the runs of a node, the newest first.",
    "nodes/{node}/runs",
    (
        NODE,
        limit("Number of runs."),
        Argument("--state", "Only runs in this state, such as failed."),
    ),
    lists="runs",
    columns="uuid verb state requester started_at ended_at",
).command()


class StopRun(rows.Command):
    """Hold or abort the run of a node when the step under way has ended.

    A held run goes on with the verb unhold and ends with the verb abort.
    """

    arguments = (
        NODE,
        Argument("--run", "UUID of the run. Default: current.", more={"default": "current"}),
        OneOf(
            flag("--abort", "End the run. Default: hold it until unhold.", "how", "abort", "hold"),
            flag("--undo", "Take the stop back."),
            required=False,
        ),
        Argument(
            "--after",
            "Stop after this step. Default: the step under way.",
            "<ordinal>",
            {"type": int},
        ),
        Argument("--reason", "Text for other operators."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Ask for the stop, or take it back."""
        words = ("nodes", parsed_args.node, "runs", parsed_args.run, "stop")
        if parsed_args.undo:
            self.api.change("DELETE", *words)
            return
        given = {name: getattr(parsed_args, name) for name in ("how", "after", "reason")}
        body = {name: value for name, value in given.items() if value is not None}
        self.api.change("PUT", *words, body=body)


step_statistics = Row(
    "List durations in seconds, and failures, of the newest steps that have ended.",
    "stats/steps",
    (
        Argument("--step", "Only this step, such as deploy.erase_devices.", "<interface.step>"),
        Argument("--driver", "Only nodes of this hardware type."),
        Argument("--resource-class", "Only nodes of this resource class.", "<class>"),
        Argument("--since", "Only steps that ended then or later: 2026-01-31T12:00:00Z.", "<time>"),
    ),
    lists="steps",
    columns="step kind driver resource_class count failed aborted p50 p90 p99 longest codes",
    read=_step_row,
).command()
