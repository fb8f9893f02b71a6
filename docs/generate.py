"""Write the generated parts of the documentation from the tables of the code.

``python docs/generate.py`` rewrites ``states.dot`` and, in the pages of ``PAGES``, the lines
between ``.. generated: NAME`` and ``.. end of generated part``. With ``--check`` it writes nothing,
and exit status 1 means that a file would change.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import contracts
import requirements

from ironic_lite import errors, features
from ironic_lite.api import policy
from ironic_lite.cmd.entry import AGREED, OF_CONDUCTOR
from ironic_lite.core import deprecations, options, threads
from ironic_lite.domain import activities, fields, notifications, recovery, states, steps, verbs
from ironic_lite.domain.recovery import CrashPoint, RecoveryAction
from ironic_lite.domain.states import Kind, State
from ironic_lite.domain.steps import StepKind
from ironic_lite.drivers.redfish.bmc import quirks

threads.native()  # before anything imports an oslo library


DOCS = pathlib.Path(__file__).parent
DIAGRAM = DOCS / "states.dot"
RESULTS = DOCS.parent / "tests" / "recorded" / "results.json"

LONGEST_LINE = 120

_PART = re.compile(
    r"(?P<head>^\.\. generated: (?P<name>\S+)\n).*?(?P<tail>^\.\. end of generated part\n)",
    re.MULTILINE | re.DOTALL,
)
_EVENTS_OF_VERBS = {verb.event for verb in verbs.TABLE}
_COLOURS = {
    Kind.STABLE: "palegreen",
    Kind.BUSY: "lightyellow",
    Kind.WAIT: "lightblue",
    Kind.HELD: "lightgrey",
    Kind.FAIL: "mistyrose",
}

# -- tables ----------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a list-table; an empty cell is shown as a dash."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (head, *rows):
        first, *others = (cell or "-" for cell in row)
        lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return "\n".join(lines)


def words(values: Iterable[object]) -> str:
    """Return literals separated by commas."""
    return ", ".join(f"``{value}``" for value in values)


def state_table() -> str:
    """Return the states with their kinds, targets and possible verbs."""
    rows = []
    for state in State:
        trait = states.STATES[state]
        asked = [verb.target for verb in verbs.TABLE if verbs.possible(verb, state)]
        target = f"``{trait.target}``" if trait.target else ""
        if state in states.CLEAN_STATES:
            target += f", manual: ``{State.MANAGEABLE}``"
        rows.append((f"``{state}``", trait.kind.value, target, words(asked)))
    return table(("State", "Kind", "Target", "Verbs possible"), rows)


def verb_table() -> str:
    """Return the verbs with their bodies, their source states and the first states after them."""
    rows = []
    for verb in verbs.TABLE:
        sources = [state for state in State if verbs.possible(verb, state)]
        leads = dict.fromkeys(states.follow(state, verb.event) for state in sources)
        rows.append((f"``{verb.target}``", _since(verb), words(sources), words(leads), _body(verb)))
    return table(("Target", "Since", "From", "Leads to", "Body"), rows)


def _since(verb: verbs.Verb) -> str:
    later = [f"1.{minor} in ``{state}``" for state, minor in verb.state_since.items()]
    return ", ".join([f"1.{verb.since}", *later])


def _body(verb: verbs.Verb) -> str:
    keys = [
        f"``{key}``" + (f" (1.{since})" if since > verb.since else "")
        for key, since in verb.allows.items()
    ]
    needed = f"; needs {' or '.join(f'``{key}``' for key in verb.needs)}" if verb.needs else ""
    return ", ".join(keys) + needed


def option_list(chosen: Mapping[str, str]) -> str:
    """Return options by group; all of a group are named by their group."""
    lines = (f"- ``[{group}]``: {words(one.split()) or 'all'}" for group, one in chosen.items())
    return "\n".join(textwrap.fill(line, LONGEST_LINE, subsequent_indent="  ") for line in lines)


def limit_table() -> str:
    """Return the time limits of waiting states and the states after them."""
    defaults = {option.dest: option.default for option in options.GROUPS["conductor"]}
    rows = (
        (
            f"``{activity.waiting}``",
            f"``[conductor]{activity.timeout}``",
            f"{defaults[activity.timeout]} seconds",
            f"``{states.follow(activity.waiting, 'fail')}``",
        )
        for activity in activities.TABLE
        if activity.waiting is not None
    )
    return table(("State", "Limit", "Default", "Then"), rows)


def refusal_table() -> str:
    """Return the verbs that a node's flags refuse."""
    rules: tuple[tuple[str, str, Callable[[verbs.Verb], bool]], ...] = (
        ("in maintenance", "400", lambda verb: not verb.in_maintenance),
        ("protected", "403", lambda verb: verb.refused_if_protected),
        ("retired", "409", lambda verb: verb.refused_if_retired),
    )
    rows = (
        (name, words(verb.target for verb in verbs.TABLE if refuses(verb)), status)
        for name, status, refuses in rules
    )
    return table(("A node that is", "refuses", "with"), rows)


def transition_table() -> str:
    """Return the whole state table, row by row."""
    rows = (
        (
            f"``{row.event}``",
            words(row.sources),
            f"``{row.to}``",
            f"``{row.via}``" if row.via else "",
        )
        for row in states.TABLE
    )
    return table(("Event", "From", "To", "Passing"), rows)


def requirement_table(spec: str) -> str:
    """Return the requirements of a specification with their tests and pages."""
    tests = requirements.tests()
    rows = (
        (
            row.number,
            row.sentence.replace("`", "``"),
            words(name for _, name in tests.get(row.number, ())),
            f"`{row.link.partition('.')[0]} <{row.link}>`__",
        )
        for row in requirements.requirements()
        if row.number.startswith(f"{spec}.")
    )
    return table(("Number", "Requirement", "Tests", "Page"), rows)


def clean_step_table() -> str:
    """Return the clean steps of the interfaces that come with the service."""
    rows = []
    for kind in sorted(fields.INTERFACE_KINDS):
        found = importlib.metadata.entry_points(group=f"ironic_lite.hardware.interfaces.{kind}")
        for entry in sorted(found):
            if not entry.value.startswith("ironic_lite."):
                continue
            for step in steps.collect(kind, entry.load()(), StepKind.CLEAN):
                about = f"{step.priority:g}", "yes" if step.requires_ramdisk else "no"
                does = (getattr(entry.load(), step.name).__doc__ or "").partition("\n")[0]
                rows.append((f"``{step.title}``", f"``{entry.name}``", *about, does))
    return table(("Step", "Interface", "Priority", "Needs the ramdisk", "Effect"), rows)


def quirk_table() -> str:
    """Return the ways of BMCs that the Redfish driver knows."""
    rows = []
    for row in quirks.TABLE:
        where = [", ".join(row.vendors)]
        where += [f"model ``{row.model}``"] if row.model else []
        where += [f"firmware ``{row.firmware}``"] if row.firmware else []
        words = [f"``{word}``" for word in row.words]
        told = f"{row.symptom} ({', '.join(words)})" if words else row.symptom
        decided = "answer" if row.by_answer else "vendor"
        rows.append((f"``{row.name}``", ", ".join(where), told, row.cure, decided, row.source))
    return table(("Name", "Vendors", "Symptom", "Cure", "Decided by", "Source"), rows)


def notification_table() -> str:
    """Return the notifications with their payloads and occasions."""
    rows = []
    for rule in notifications.TABLE:
        if rule.action is None or rule.shape is None:
            continue
        # The states of a move decide the end of its type; the page explains this above the table.
        kind = f"baremetal.{rule.action}.{rule.status or '*'}"
        rows.append((f"``{kind}``", f"``{rule.shape.name}``", rule.about))
    return table(("Event type", "Payload", "When"), rows)


def kind_list() -> str:
    """Return a paragraph with the kinds of events."""
    text = f"The kinds of events are {words(notifications.KINDS)}."
    return textwrap.fill(text, LONGEST_LINE, break_long_words=False, break_on_hyphens=False)


def unsent_table() -> str:
    """Return the events without a notification, each with the reason."""
    rows = (
        (f"``{rule.kind}``" + (f", {rule.case}" if rule.case else ""), rule.about)
        for rule in notifications.TABLE
        if rule.action is None
    )
    return table(("Event", "Why"), rows)


def payload_table() -> str:
    """Return the payload objects; those of nodes by their difference from the first."""
    rows = []
    for shape in notifications.SHAPES:
        names = sorted((*shape.names, *shape.more))
        if shape.table is fields.NODE and shape is not notifications.NODE:
            more = [name for name in names if name not in notifications.NODE.names]
            shown = f"those of ``{notifications.NODE.name}``, {words(more)}"
        else:
            shown = words(names)
        rows.append((f"``{shape.name}``", shape.version, shown))
    return table(("Object", "Version", "Fields"), rows)


def rule_table() -> str:
    """Return the recovery action of each state at each crash point."""
    rows = (
        (f"``{state}``", *(_called(recovery.TABLE[state].at(moment)) for moment in CrashPoint))
        for state in State
    )
    return table(("State", *(moment.value.capitalize() for moment in CrashPoint)), rows)


def act_table() -> str:
    """Return the recovery actions with their meanings."""
    return table(("Action", "Meaning"), ((_called(act), act.value) for act in RecoveryAction))


def _called(act: RecoveryAction) -> str:
    return act.name.lower().replace("_", " ")


def error_table() -> str:
    """Return the codes of errors with their status, whether a retry may help, and their text."""
    rows = []
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    ours = (kind for kind in kinds if issubclass(kind, errors.Error))
    for kind in sorted(ours, key=lambda kind: kind.__name__):
        retryable = "yes" if kind.retryable else "no"
        text = "\n       ".join(textwrap.wrap(f"``{kind.text}``", 105, break_on_hyphens=False))
        rows.append((f"``{kind.__name__}``", str(int(kind.status)), retryable, text))
    return table(("Code", "Status", "Retryable", "Text"), rows)


def deprecation_table() -> str:
    """Return what a later major release removes."""
    rows = ((row.what, row.since, row.gone, row.instead) for row in deprecations.TABLE)
    return table(("What", "Since", "Removed in", "Instead"), rows)


def fence_table() -> str:
    """Return the modules that may import each restricted library."""
    return table(("Library or package", "Imported by", "Contract"), contracts.fences())


def own_rule_table() -> str:
    """Return the policy rules that Ironic does not have."""
    features.policy_rules()
    rules = {rule.name: rule.says for rule in policy.OWN}
    return table(("Rule", "Right"), ((f"``{name}``", rules[name]) for name in sorted(rules)))


def check_table(module: str, name: str = "TABLE") -> str:
    """Return the checks of a module's table.

    The module is loaded when it is needed, because some load oslo libraries.
    """
    found = getattr(importlib.import_module(module), name)
    return table(("Check", "Content"), ((f"``{one.name}``", one.about) for one in found))


# -- diagrams --------------------------------------------------------------------------------


class Journey(NamedTuple):
    """The way of a node from a resting state to the next, begun by one verb.

    ``busy`` is None for a verb that does no work; ``pauses`` are its waiting and held states.
    """

    start: State
    target: str
    busy: State | None
    pauses: tuple[State, ...]
    ends: State
    failed: State | None


def _all_journeys() -> list[Journey]:
    """Return the journeys from all resting states; of verbs with one event, the first."""
    found: dict[tuple[State, str], Journey] = {}
    for start in State:
        if states.kind(start) is states.Kind.STABLE:
            for verb in verbs.TABLE:
                if verbs.possible(verb, start):
                    found.setdefault((start, verb.event), _journey(start, verb))
    return list(found.values())


def _journey(start: State, verb: verbs.Verb) -> Journey:
    first = states.follow(start, verb.event)
    if states.kind(first) is not states.Kind.BUSY:
        return Journey(start, verb.target, None, (), first, None)
    pausing = (event for event in ("wait", "hold") if states.allows(first, event))
    pauses = tuple(states.follow(first, event) for event in pausing)
    # A manual clean ends by the event `manage`, a deletion by continuing to clean.
    ending = "clean" if first is State.DELETING else "done"
    good = states.follow(first, "manage" if verb.target == "clean" else ending)
    return Journey(start, verb.target, first, pauses, good, states.follow(first, "fail"))


def journeys() -> str:
    """Return the paths between stable states as a literal block, one verb for each line."""
    rows = [_journey_cells(journey) for journey in _all_journeys()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "   " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "::\n\n" + "\n".join(line.rstrip() for line in lines)


def _journey_cells(journey: Journey) -> tuple[str, ...]:
    pauses = f"({', '.join(journey.pauses)})" if journey.pauses else ""
    failed = f"or {journey.failed}" if journey.failed else ""
    asked = (str(journey.start), f"--{journey.target}-->")
    return *asked, journey.busy or "", pauses, f"==> {journey.ends}", failed


def recovery_map() -> str:
    """Return the recovery rules of the busy states as a literal block."""
    lines = []
    for state in sorted(recovery.WORKED_IN, key=list(State).index):
        by_act: dict[RecoveryAction, list[str]] = {}
        for moment in CrashPoint:
            by_act.setdefault(recovery.TABLE[state].at(moment), []).append(moment.value)
        for first, (act, moments) in enumerate(by_act.items()):
            name, ends = ("", "") if first else (str(state), _ends(state))
            lines.append(
                f"   {name:<10}  {', '.join(moments):<21}  --{_called(act)}-->".ljust(64) + ends
            )
    return "::\n\n" + "\n".join(line.rstrip() for line in lines)


def _ends(state: State) -> str:
    good = states.follow(state, "clean" if state is State.DELETING else "done")
    return f"==> {good} or {states.follow(state, 'fail')}"


def dot() -> str:
    """Return the whole state table as a Graphviz graph."""
    lines = [
        "// Generated from ironic_lite/domain/states.py. Draw: dot -Tsvg states.dot > states.svg",
        "digraph states {",
        '  graph [rankdir=LR, label="Solid: requested by a verb. Dashed: by the service."];',
        "  node [shape=box, style=filled];",
    ]
    for state in State:
        lines.append(f'  "{state}" [fillcolor={_COLOURS[states.kind(state)]}];')
    for source, after, label, asked in _edges():
        lines.append(f'  "{source}" -> "{after}" [label="{label}"{"" if asked else _DASHED}];')
    return "\n".join((*lines, "}", ""))


_DASHED = ", style=dashed"


def _edges() -> Iterable[tuple[State, State, str, bool]]:
    """Give (from, to, events, asked for), events with the same way and nature together."""
    together: dict[tuple[State, State, bool], list[str]] = {}
    for row in states.TABLE:
        for source in row.sources:
            asked = row.event in _EVENTS_OF_VERBS and states.kind(source) is not Kind.BUSY
            together.setdefault((source, row.to, asked), []).append(row.event)
    for (source, after, asked), events in together.items():
        yield source, after, ", ".join(events), asked


# -- writing ---------------------------------------------------------------------------------


def machine_table() -> str:
    """Return the verdict of each operation on each recorded machine."""
    letters = {"pass": "P", "refused": "R", "not offered": "-", "fails": "F"}
    machines = json.loads(RESULTS.read_text(encoding="utf-8"))["machines"]
    operations = list(dict.fromkeys(name for one in machines for name in one["verdicts"]))
    lines = [".. csv-table::"]
    head = ["Machine", "BMC", *(name.replace("_", " ") for name in operations)]
    lines += textwrap.wrap(
        ", ".join(head), 110, initial_indent="   :header: ", subsequent_indent=" " * 6
    )
    lines.append("")
    for one in machines:
        verdicts = (letters[one["verdicts"][name]] for name in operations)
        lines.append("   " + ", ".join((one["machine"], one["firmware"], *verdicts)))
    return "\n".join(lines)


Parts = Mapping[str, Callable[[], str]]

PAGES: Mapping[str, Parts] = {
    "access.rst": {"own-rules": own_rule_table},
    "states.rst": {
        "journeys": journeys,
        "states": state_table,
        "limits": limit_table,
        "verbs": verb_table,
        "refusals": refusal_table,
        "transitions": transition_table,
    },
    "recovery.rst": {
        "recovery-map": recovery_map,
        "recovery-rules": rule_table,
        "recovery-acts": act_table,
    },
    "cleaning.rst": {"clean-steps": clean_step_table},
    "configuration.rst": {
        "conductor-options": functools.partial(option_list, OF_CONDUCTOR),
        "agreed-options": functools.partial(option_list, AGREED),
    },
    "errors.rst": {"errors": error_table},
    "upgrading.rst": {"deprecations": deprecation_table},
    "watching.rst": {"kinds": kind_list},
    "doctor.rst": {
        f"{name}-checks": functools.partial(check_table, f"ironic_lite.{module}", *table_name)
        for name, module, *table_name in (
            ("api", "features.doctor.api"),
            ("conductor", "features.doctor.work"),
            ("node", "features.doctor.work", "NODE_TABLE"),
            ("redfish", "drivers.redfish.power"),
            ("ipmi", "drivers.ipmi.power"),
            ("imports", "features.move_in.api", "CHECKS"),
            ("command", "cmd.status", "DOCTOR_CHECKS"),
        )
    },
    "redfish-machines.rst": {"recorded-machines": machine_table, "quirks": quirk_table},
    "notifications.rst": {
        "notifications": notification_table,
        "unsent": unsent_table,
        "payloads": payload_table,
    },
    "architecture.rst": {"layers": contracts.drawing, "fences": fence_table},
    "specifications.rst": {
        spec: functools.partial(requirement_table, spec) for spec in ("S1", "S2", "S3", "S4", "S5")
    },
}


def renewed(name: str, parts: Parts) -> str:
    """Return a page with its generated parts renewed."""
    page = (DOCS / name).read_text()
    named = {found["name"] for found in _PART.finditer(page)}
    if named != parts.keys():
        raise SystemExit(f"generated parts of {name}: {sorted(named ^ parts.keys())} differ")
    return _PART.sub(
        lambda found: f"{found['head']}\n{parts[found['name']]()}\n\n{found['tail']}", page
    )


def main(arguments: Sequence[str]) -> int:
    """Write or check all files; return the exit status."""
    fresh = {DOCS / name: renewed(name, parts) for name, parts in PAGES.items()}
    fresh[DIAGRAM] = dot()
    stale = [path for path, text in fresh.items() if not path.exists() or path.read_text() != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.name} is older than the tables of the code: run make docs")
        return 1 if stale else 0
    for path in stale:
        path.write_text(fresh[path])
        print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
