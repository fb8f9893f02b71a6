"""Inspection rules: the engine as tables, rules out of a file, and regular expressions."""

from __future__ import annotations

import contextlib
import copy
import os
import pathlib
import re
import resource
import threading
import time
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.engine.runtime import BuiltinRules
from ironic_lite.core import config
from ironic_lite.domain import inspection_rules
from ironic_lite.domain.inspection_rules import RuleCall, Subject, conditions
from ironic_lite.domain.inspection_rules.actions import ACTIONS
from ironic_lite.domain.inspection_rules.conditions import OPERATORS

# The rule engine as tables: templates, each operator, each action, loops, and what is refused.

Json = dict[str, Any]
PORT = "11111111-aaaa-4bbb-8ccc-000000000000"
INVENTORY: Json = {
    "cpu": {"count": 4, "architecture": "x86_64"},
    "memory": {"physical_mb": 4096},
    "system_vendor": {"manufacturer": "Dell Inc.", "serial": ""},
    "bmc_address": "192.0.2.7",
    "bmc_password": "s3same",
    "disks": [{"name": "/dev/sda", "size": 10}, {"name": "/dev/sdb", "size": 20}],
}
NODE: Json = {
    "uuid": "n",
    "name": "web",
    "driver_info": {"redfish_password": "s3same"},
    "properties": {"capabilities": "a:1,b:2", "cpus": 1, "tags": ["x"]},
    "extra": {},
    "description": None,
}


def subject() -> Subject:
    return Subject(
        copy.deepcopy(NODE),
        copy.deepcopy(INVENTORY),
        {"seen": [1], "deep": {"a": {"b": 1}}},
        {PORT: {"address": "52:54:00:00:00:01", "extra": {}, "description": None}},
        {"CUSTOM_OLD"},
    )


# -- templates -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain", "plain"),
        ("{inventory[cpu][count]}", 4),
        ("{inventory[cpu][count]} cores", "4 cores"),
        ("{node.name}/{node[properties][cpus]}", "web/1"),
        ("{inventory[disks][1][name]}", "/dev/sdb"),
        ("{inventory[disks][9][name]}", None),
        ("{inventory[none][deeper]}", None),
        ("<{inventory[none]}>", "<>"),
        ("{plugin_data[deep][a]}", {"b": 1}),
        ("{{inventory}}", "{inventory}"),
        ("{node.__class__}", None),
        ("{node.name.__class__.__mro__}", None),
        ("{other} {0}", "{other} {0}"),
        ("{", "{"),
        ("{0}", "{0}"),
        ("{item}", None),
        ("{node.name!r}", "'web'"),
        ("{inventory[cpu][count]:03d}", "004"),
        ("{inventory[cpu][count]!s:>3}|", "  4|"),
        ("{node.name:.2}-{inventory[none]:03d}", "we-"),
        (["{node.name}", 5, {"{node.name}": "{node.name}"}], ["web", 5, {"web": "web"}]),
    ],
    ids=str,
)
def test_templates_are_filled_in(text: Any, found: Any) -> None:
    assert conditions.fill_template(text, subject().view(secrets=True)) == found


@pytest.mark.parametrize("text", ["{node.name:03d}", "{inventory[cpu][count]:99999}", "{item:c}"])
def test_a_form_that_does_not_fit_is_refused(text: str) -> None:
    view = {**subject().view(secrets=True), "item": 2**21}
    with pytest.raises(errors.InvalidParameter, match="cannot be filled in"):
        conditions.fill_template(text, view)


def test_secrets_are_hidden_unless_the_rule_is_sensitive() -> None:
    text = "{inventory[bmc_password]} {node[driver_info][redfish_password]}"
    assert conditions.fill_template(text, subject().view(secrets=False)) == "****** ******"
    assert conditions.fill_template(text, subject().view(secrets=True)) == "s3same s3same"


# -- conditions ------------------------------------------------------------------------------

CASES: list[tuple[str, Any, bool | None]] = [
    ("eq", {"values": ["{inventory[cpu][count]}", 4]}, True),
    ("eq", {"values": ["{inventory[cpu][count]}", "4"]}, True),
    ("eq", {"values": [4, 4.0, 5]}, False),
    ("eq", {"values": [1, "1"], "force_strings": True}, True),
    ("eq", [[1, 1]], True),
    ("ne", {"values": ["a", "b"]}, True),
    ("lt", {"values": [1, 2, 3]}, True),
    ("lt", {"values": [1, 3, 2]}, False),
    ("lt", {"values": ["9", 10]}, True),
    ("le", {"values": [2, 2]}, True),
    ("gt", {"values": ["{inventory[memory][physical_mb]}", 1024]}, True),
    ("ge", {"values": [1, 2]}, False),
    ("ge", {"values": [[1], ["a"]]}, None),
    ("lt", {"values": [None, 5]}, None),
    ("lt", {"values": [5, 1, None]}, None),
    ("le", {"values": ["{inventory[none]}", "x"], "force_strings": True}, None),
    ("gt", {"values": "{inventory[none]}"}, None),
    ("gt", {"values": []}, None),
    ("gt", {"values": "{inventory[cpu][count]}"}, True),
    ("is-empty", {"value": "{inventory[system_vendor][serial]}"}, True),
    ("is-empty", {"value": "{inventory[none]}"}, True),
    ("is-empty", {"value": []}, True),
    ("is-empty", {"value": 0}, False),
    ("is-none", {"value": "{inventory[none]}"}, True),
    ("is-none", {"value": ""}, False),
    ("is-true", {"value": "Yes"}, True),
    ("is-true", {"value": 2}, True),
    ("is-true", {"value": "1"}, False),
    ("is-true", {"value": None}, False),
    ("is-false", {"value": "no"}, True),
    ("is-false", {"value": None}, True),
    ("is-false", {"value": 0}, True),
    ("is-false", {"value": "x"}, False),
    ("in-net", {"address": "{inventory[bmc_address]}", "subnet": "192.0.2.0/24"}, True),
    ("in-net", {"address": "10.0.0.1", "subnet": "192.0.2.0/24"}, False),
    ("in-net", {"address": "nonsense", "subnet": "192.0.2.0/24"}, None),
    ("in-net", {"address": "192.0.2.7", "subnet": "{inventory[none]}"}, None),
    ("in-net", {"address": "2001:db8::1", "subnet": "192.0.2.0/24"}, False),
    ("one-of", {"value": "b", "values": ["a", "b"]}, True),
    ("one-of", {"value": "c", "values": ["a", "b"]}, False),
    ("matches", {"value": "{inventory[system_vendor][manufacturer]}", "regex": "Dell"}, False),
    ("matches", {"value": "{inventory[system_vendor][manufacturer]}", "regex": "Dell.*"}, True),
    ("matches", {"value": "R640", "regex": "^R[0-9]{3}$"}, True),
    ("matches", {"value": "R64", "regex": "R[0-9]{3}"}, False),
    ("matches", {"value": "{x}", "regex": r"{{0}\{x}}{0}"}, True),
    ("contains", {"value": "my web", "regex": "{node.name}$"}, True),
    ("matches", {"value": "a Dell", "regex": "Dell"}, False),
    ("contains", {"value": "a Dell", "regex": "(?i)dell"}, True),
    ("contains", {"value": None, "regex": "x"}, False),
]


@pytest.mark.parametrize(("op", "args", "expected"), CASES, ids=[f"{n}" for n in range(len(CASES))])
def test_conditions(op: str, args: Any, expected: bool | None) -> None:
    """None: false, inverted or not."""
    view = subject().view(secrets=True)
    inspection_rules.check([{"op": op, "args": args}], [])
    assert conditions.holds({"op": op, "args": args}, view) is (expected is True)
    assert conditions.holds({"op": f"! {op}", "args": args}, view) is (expected is False)


KINDS: dict[str, Any] = {
    "missing": "{inventory[none]}",
    "null": None,
    "empty text": "",
    "text": "many",
    "text of a number": "10",
    "text of no number": "nan",
    "number": 10,
    "fraction": 10.0,
    "truth": True,
    "list": [10],
    "object": {"a": 10},
    "address": "192.0.2.7",
}
"""Kinds of values, compared with 9, with "many", or with the network 192.0.2.0/24."""
ORDERED = ("text of a number", "number", "fraction")
TRUE_FOR: dict[str, tuple[Any, tuple[str, ...] | None, tuple[str, ...]]] = {
    # operator: the other value, kinds for which it is true, kinds for which its inverse is true;
    # None: all others
    "lt": (9, (), ORDERED),
    "le": (9, (), ORDERED),
    "gt": (9, ORDERED, ()),
    "ge": (9, ORDERED, ()),
    "in-net": ("192.0.2.0/24", ("address",), ()),
    "eq": (10, ORDERED, ()),
    "ne": (10, None, ORDERED),
    "one-of": ([10, 11], ORDERED, ()),
    "matches": ("1.*", (*ORDERED, "address"), ()),
    "contains": ("many", ("text",), ()),
    "is-none": (None, ("missing", "null"), ()),
    "is-empty": (None, ("missing", "null", "empty text"), ()),
    "is-true": (None, ("number", "fraction", "truth"), ()),
    "is-false": (None, ("missing", "null"), ()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", TRUE_FOR)
def test_operators_by_kinds_of_values(op: str, kind: str) -> None:
    other, true, false = TRUE_FOR[op]
    if op in ("lt", "le", "gt", "ge", "eq", "ne"):
        args: Any = {"values": [KINDS[kind], other]}
    else:
        args = [KINDS[kind]] if other is None else [KINDS[kind], other]
    view = subject().view(secrets=True)
    holds, inverse = (conditions.holds({"op": name, "args": args}, view) for name in (op, f"!{op}"))
    compares = op in ("lt", "le", "gt", "ge", "in-net")
    assert holds is (kind not in false if true is None else kind in true)
    assert inverse is (kind in false if compares else not holds)


def test_each_operator_is_in_the_table_of_kinds() -> None:
    assert set(TRUE_FOR) == set(OPERATORS)


def test_each_operator_has_a_case() -> None:
    assert {op for op, *_ in CASES} == set(OPERATORS)


def test_a_regular_expression_of_an_item_that_is_none_fails_the_inspection() -> None:
    one = {"op": "matches", "args": {"value": "a", "regex": "{item}"}, "loop": ["("]}
    inspection_rules.check([one], [])
    rule = {"uuid": "r", "conditions": [one], "actions": [], "sensitive": True}
    with pytest.raises(errors.HardwareError, match=r"Inspection rule r: matches: .*regular"):
        inspection_rules.run([rule], subject())


@pytest.mark.parametrize(
    ("multiple", "expected"),
    [("any", True), ("all", False), ("first", True), ("last", True), (None, True)],
    ids=str,
)
def test_conditions_loop(multiple: str | None, expected: bool) -> None:
    one: Json = {
        "op": "gt",
        "args": {"values": ["{item[size]}", 15]},
        "loop": [{"size": "{inventory[disks][0][size]}"}, {"size": 20}],
    }
    if multiple is not None:
        one["multiple"] = multiple
    assert conditions.holds(one, subject().view(secrets=True)) is expected


# -- actions ---------------------------------------------------------------------------------


def did(op: str, args: Any, *, made: list[RuleCall] | None = None, **more: Any) -> Subject:
    found = subject()
    found.call = None if made is None else made.append
    action = {"op": op, "args": args, **more}
    inspection_rules.check([], [action])
    rule = {"uuid": "r", "conditions": [], "actions": [action], "sensitive": True}
    inspection_rules.run([rule], found)
    return found


def test_attributes_are_set_extended_and_removed() -> None:
    found = did("set-attribute", {"path": "/properties/cpus", "value": "{inventory[cpu][count]}"})
    assert (found.node["properties"]["cpus"], found.changed) == (4, {"properties"})
    assert did("set-attribute", ["extra/a/b", 1]).node["extra"] == {"a": {"b": 1}}
    found = did("set-attribute", {"path": "description", "value": "in {node.name}"})
    assert found.node["description"] == "in web"
    add = {"path": "properties/tags", "value": "x"}
    assert did("extend-attribute", add).node["properties"]["tags"] == ["x", "x"]
    assert did("extend-attribute", {**add, "unique": True}).node["properties"]["tags"] == ["x"]
    assert did("extend-attribute", {**add, "path": "extra/new"}).node["extra"] == {"new": ["x"]}
    found = did("del-attribute", {"path": "/properties/cpus"})
    assert "cpus" not in found.node["properties"]
    assert did("del-attribute", {"path": "extra/none/deeper"}).node["extra"] == {}
    assert NODE["properties"]["cpus"] == 1


def test_dots_part_paths_where_no_slash_does() -> None:
    set_to_1 = {"value": 1}
    assert did("set-attribute", {"path": "extra.a.b", **set_to_1}).node["extra"] == {"a": {"b": 1}}
    assert did("set-attribute", {"path": "/extra/a.b", **set_to_1}).node["extra"] == {"a.b": 1}
    assert did("extend-attribute", {"path": "/extra/a.b", **set_to_1}).node["extra"] == {"a.b": [1]}
    assert did("del-attribute", {"path": "properties.cpus"}).node["properties"].get("cpus") is None
    assert did("set-plugin-data", {"path": "deep.a.b", **set_to_1}).plugin_data["deep"] == {
        "a": {"b": 1}
    }
    assert did("unset-plugin-data", {"path": "deep.a"}).plugin_data["deep"] == {}


@pytest.mark.parametrize(
    ("path", "value", "held"),
    [
        ("name", "s-{inventory[cpu][count]}", "s-4"),
        ("name", None, None),
        ("deploy_interface", "direct", "direct"),
        ("automated_clean", "False", False),
        ("automated_clean", None, None),
        ("/extra", {"a": "{inventory[cpu][count]}"}, {"a": 4}),
    ],
    ids=["name", "no name", "interface", "answer", "no answer", "object"],
)
def test_each_kind_of_attribute_is_set(path: str, value: Any, held: Any) -> None:
    assert did("set-attribute", {"path": path, "value": value}).node[path.strip("/")] == held


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "two words"),
        ("name", "ports"),
        ("driver", None),
        ("deploy_interface", None),
        ("automated_clean", "maybe"),
        ("automated_clean", []),
        ("extra", "text"),
    ],
    ids=str,
)
def test_a_value_that_an_attribute_cannot_hold_fails_the_inspection(path: str, value: Any) -> None:
    with pytest.raises(errors.HardwareError, match=f"set-attribute: {path}: "):
        did("set-attribute", {"path": path, "value": value})


def test_a_whole_attribute_is_emptied() -> None:
    assert did("del-attribute", {"path": "extra"}).node["extra"] == {}
    assert did("del-attribute", {"path": "name"}).node["name"] is None
    with pytest.raises(errors.HardwareError, match="must not be null"):
        did("del-attribute", {"path": "driver"})


def test_traits_and_capabilities() -> None:
    found = did("add-trait", {"name": "CUSTOM_{node.name}"[:7] + "A"})
    assert (found.traits, found.changed) == ({"CUSTOM_OLD", "CUSTOM_A"}, {"traits"})
    assert did("remove-trait", {"name": "CUSTOM_OLD"}).traits == set()
    put = did("set-capability", {"name": "c", "value": 3}).node["properties"]["capabilities"]
    assert put == "a:1,b:2,c:3"
    cut = did("unset-capability", {"name": "a"}).node["properties"]["capabilities"]
    assert cut == "b:2"


def test_plugin_data() -> None:
    assert did("set-plugin-data", {"path": "deep/a/c", "value": 2}).plugin_data["deep"] == {
        "a": {"b": 1, "c": 2}
    }
    add = {"path": "seen", "value": 1}
    assert did("extend-plugin-data", add).plugin_data["seen"] == [1, 1]
    assert did("extend-plugin-data", {**add, "unique": True}).plugin_data["seen"] == [1]
    assert did("unset-plugin-data", {"path": "deep/a"}).plugin_data["deep"] == {}
    assert "seen" not in did("unset-plugin-data", {"path": "seen"}).plugin_data


@pytest.mark.parametrize("ident", [PORT, "52:54:00:00:00:01", "52:54:00:00:00:01".upper()])
def test_ports(ident: str) -> None:
    found = did("set-port-attribute", {"port_id": ident, "path": "extra/a", "value": 1})
    assert (found.ports[PORT]["extra"], found.changed) == ({"a": 1}, {PORT})
    listed = did("extend-port-attribute", {"port_id": ident, "path": "extra/l", "value": 1})
    assert listed.ports[PORT]["extra"] == {"l": [1]}
    quiet = did("set-port-attribute", {"port_id": ident, "path": "pxe_enabled", "value": "no"})
    assert quiet.ports[PORT]["pxe_enabled"] is False
    told = did("del-port-attribute", {"port_id": ident, "path": "description"})
    assert told.ports[PORT]["description"] is None


def test_log_action_logs_its_message() -> None:
    assert did("log", {"msg": "{node.name}", "level": "warning"}).said == [("warning", "web")]
    assert did("log", {"msg": "x", "level": "WARNING"}).said == [("warning", "x")]
    assert did("log", ["hello"]).said == [("info", "hello")]


def test_calls_are_made_as_they_are_asked_for() -> None:
    made: list[RuleCall] = []
    did("api-call", {"url": "http://cmdb/{node.name}"}, made=made)
    told = {"headers": {"X-Node": "{node.name}"}, "timeout": "7", "retries": 0, "backoff_factor": 2}
    did("api-call", {"url": "https://[::1]:8/", **told}, made=made)
    assert made == [
        RuleCall("http://cmdb/web", {}, 5.0, 3, 0.3),
        RuleCall("https://[::1]:8/", {"X-Node": "web"}, 7.0, 0, 2.0),
    ]


BAD_CALLS: dict[str, Json] = {
    "url": {"url": "file:///etc/passwd"},
    "url of nobody": {"url": "http://"},
    "url with a blank": {"url": "http://a/ b"},
    "headers": {"headers": "x"},
    "headers of two lines": {"headers": {"X-A": "a\r\nX-B: b"}},
    "headers without a name": {"headers": {"": "b"}},
    "timeout": {"timeout": 0},
    "timeout of hours": {"timeout": 3600},
    "timeout of text": {"timeout": "long"},
    "timeout of none": {"timeout": float("nan")},
    "retries": {"retries": -1},
    "backoff_factor": {"backoff_factor": 61},
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_a_call_that_cannot_be_made_is_refused(case: str) -> None:
    action = {"op": "api-call", "args": {"url": "http://cmdb/", **BAD_CALLS[case]}}
    with pytest.raises(errors.InvalidParameter) as why:
        inspection_rules.check([], [action])
    assert why.value.facts["path"] == f"actions/0/args/{case.partition(' ')[0]}"


def test_an_address_is_looked_at_again_when_it_is_filled_in() -> None:
    with pytest.raises(errors.HardwareError, match="api-call: url: is not an address"):
        did("api-call", {"url": "{node.name}"}, made=[])


def test_actions_loop() -> None:
    found = did(
        "set-attribute",
        {"path": "extra/{item[key]}", "value": "{item[value]}"},
        loop=[{"key": "a", "value": "{inventory[cpu][count]}"}, {"key": "b", "value": 2}],
    )
    assert found.node["extra"] == {"a": 4, "b": 2}


def test_each_action_is_tried_above() -> None:
    text = __file__
    with open(text, encoding="utf-8") as file:
        source = file.read()
    assert [op for op in ACTIONS if f'did("{op}"' not in source and op != "fail"] == []


@pytest.mark.parametrize(
    ("op", "args", "said"),
    [
        ("fail", {"msg": "{inventory[cpu][count]} are too few"}, "fail: 4 are too few"),
        ("extend-attribute", {"path": "properties/cpus", "value": 1}, "is not the path of a list"),
        ("set-port-attribute", {"port_id": "x", "path": "extra/a", "value": 1}, "Port x"),
        ("set-attribute", {"path": "{node.name}", "value": 1}, "cannot be written"),
        ("set-attribute", {"path": "description", "value": "a" * 5000}, "longer than 4096"),
        ("add-trait", {"name": "bad"}, "not a trait"),
    ],
    ids=["fail", "list", "port", "path", "length", "trait"],
)
def test_a_rule_that_cannot_be_carried_out_fails_the_inspection(
    op: str, args: Any, said: str
) -> None:
    with pytest.raises(errors.HardwareError, match=f"Inspection rule r: {op}: ") as why:
        did(op, args)
    assert said in why.value.message


# -- rules -----------------------------------------------------------------------------------


def test_rules_see_what_those_before_have_done_and_all_conditions_must_hold() -> None:
    def rule(number: int, conditions_: list[Json], value: Any) -> Json:
        put = {"op": "set-attribute", "args": {"path": f"extra/{number}", "value": value}}
        return {"uuid": str(number), "conditions": conditions_, "actions": [put], "sensitive": 0}

    true, false = {"op": "eq", "args": [[1, 1]]}, {"op": "ne", "args": [[1, 1]]}
    found = subject()
    inspection_rules.run(
        [rule(1, [], "a"), rule(2, [true, false], "b"), rule(3, [true], "{node[extra][1]}c")],
        found,
    )
    assert found.node["extra"] == {"1": "a", "3": "ac"}


@pytest.mark.parametrize(
    ("what", "one", "path"),
    [
        ("conditions", {"op": "nope", "args": {}}, "conditions/0/op"),
        ("conditions", {"op": "!!eq", "args": {"values": []}}, "conditions/0/op"),
        ("conditions", {"op": "eq", "args": {}}, "conditions/0/args/values"),
        ("conditions", {"op": "eq", "args": []}, "conditions/0/args/values"),
        ("conditions", {"op": "eq", "args": [[1], True, 3]}, "conditions/0/args"),
        ("conditions", {"op": "eq", "args": {"values": [], "x": 1}}, "conditions/0/args/x"),
        ("conditions", {"op": "matches", "args": ["a", "("]}, "conditions/0/args/regex"),
        ("actions", {"op": "api-call", "args": ["http://x", {}, 5, 3, 1, 1]}, "actions/0/args"),
        ("actions", {"op": "log", "args": {"msg": "x", "level": "loud"}}, "actions/0/args/level"),
        ("actions", {"op": "set-attribute", "args": ["uuid", 1]}, "actions/0/args/path"),
        ("actions", {"op": "set-attribute", "args": ["extra..a", {}]}, "actions/0/args/path"),
        ("actions", {"op": "set-attribute", "args": ["owner/x", 1]}, "actions/0/args/path"),
        ("actions", {"op": "set-attribute", "args": ["//", 1]}, "actions/0/args/path"),
        ("actions", {"op": "set-port-attribute", "args": ["p", "address", 1]}, "actions/0/args/pa"),
    ],
    ids=[f"{n}" for n in range(14)],
)
def test_a_rule_nobody_could_carry_out_is_refused(what: str, one: Json, path: str) -> None:
    given: dict[str, list[Json]] = {"conditions": [], "actions": [], what: [one]}
    with pytest.raises(errors.InvalidParameter) as why:
        inspection_rules.check(**given)
    assert str(why.value.facts["path"]).startswith(path)


# Inspection rules out of a file: its form is checked to the last key, and it is read as needed.

LOG = {"op": "log", "args": {"msg": "x"}}
TEXT = """
- description: all of them
  priority: -5
  conditions:
    - {op: "!is-empty", args: {value: "{inventory[bmc_address]}"}, loop: [1], multiple: all}
  actions:
    - op: set-attribute
      args: {path: /driver_info/redfish_address, value: "https://{inventory[bmc_address]}"}
- uuid: mine
  sensitive: true
  actions: [{op: log, args: {msg: x}}]
"""
PUT = "- {{actions: [{{op: set-attribute, args: {{path: extra/x, value: {}}}}}]}}"


def written(path: pathlib.Path, text: str) -> BuiltinRules:
    path.write_text(text, encoding="utf-8")
    return BuiltinRules(str(path))


def test_rules_are_as_requests_would_make_them(tmp_path: pathlib.Path) -> None:
    first, second = written(tmp_path / "rules.yaml", TEXT).rules()
    assert (first["uuid"], first["priority"]) == ("00000000-0000-0000-0000-000000000000", -5)
    assert (first["sensitive"], first["phase"]) == (False, "main")
    assert first["conditions"][0]["multiple"] == "all"
    assert (second["uuid"], second["sensitive"], second["priority"]) == ("mine", True, 0)
    assert second["actions"] == [LOG]


def test_a_file_that_has_changed_is_read_again_and_only_then(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rules.yaml"
    book = written(path, TEXT)
    known = book.rules("main")
    assert book.rules("main")[0] is known[0]
    path.write_text("[]", encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert book.rules("main") == []


@pytest.mark.parametrize(
    ("value", "found"), [("2026-01-02", "2026-01-02"), ("{1: {2.5: x}}", {"1": {"2.5": "x"}})]
)
def test_yaml_values_without_a_json_type_are_kept_as_text(
    tmp_path: pathlib.Path, value: str, found: Any
) -> None:
    (rule,) = written(tmp_path / "rules.yaml", PUT.format(value)).rules()
    assert rule["actions"][0]["args"]["value"] == found


@pytest.mark.parametrize("path", [None, ""])
def test_without_a_file_there_are_no_rules(path: str | None) -> None:
    book = BuiltinRules(path)
    book.check()
    assert book.rules("main") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "is no YAML"),
        ("\0", "is no YAML"),
        ("a: 1", "must be a list of rules"),
        ("", "must be a list of rules"),
        ("- {actions: [{op: nope, args: {}}]}", "0/actions/0/op: 'nope' is not one of"),
        (PUT.format("!!set {a}"), "has a value that JSON cannot represent"),
        (PUT.format("&a [*a]"), "has a value that JSON cannot represent"),
        (PUT.format("9" * 20), "has a value that JSON cannot represent"),
    ],
    ids=[
        *("no file", "no YAML", "no text", "an object", "nothing", "a bad rule"),
        *("a set", "a list within itself", "a number of more than 64 bits"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: pathlib.Path, text: str | None, said: str
) -> None:
    path = tmp_path / "rules.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(errors.LocalFileError) as why:
        BuiltinRules(str(path)).rules()
    assert str(path) in why.value.message
    assert said in why.value.message
    with pytest.raises(config.ConfigError, match=r"^\[inspection_rules\]built_in_rules: "):
        BuiltinRules(str(path)).check()


BAD: dict[str, tuple[Any, str]] = {
    "a rule of text": ("x", "0"),
    "no actions": ({}, "0/actions"),
    "actions of none": ({"actions": []}, "0/actions"),
    "a scope": ({"actions": [LOG], "scope": "x"}, "0/scope"),
    "a priority of text": ({"actions": [LOG], "priority": "5"}, "0/priority"),
    "a priority that is true": ({"actions": [LOG], "priority": True}, "0/priority"),
    "another phase": ({"actions": [LOG], "phase": "early"}, "0/phase"),
    "sensitive by a word": ({"actions": [LOG], "sensitive": "yes"}, "0/sensitive"),
    "an action of text": ({"actions": ["log"]}, "0/actions/0"),
    "an action without arguments": ({"actions": [{"op": "log"}]}, "0/actions/0/args"),
    "arguments of text": ({"actions": [{**LOG, "args": "x"}]}, "0/actions/0/args"),
    "a loop of text": ({"actions": [{**LOG, "loop": "x"}]}, "0/actions/0/loop"),
    "multiple of an action": ({"actions": [{**LOG, "multiple": "any"}]}, "0/actions/0/multiple"),
    "an argument too many": (
        {"actions": [{"op": "log", "args": {"msg": "x", "y": 1}}]},
        "0/actions/0/args/y",
    ),
    "conditions of text": ({"actions": [LOG], "conditions": "x"}, "0/conditions"),
    "a bad multiple": (
        {"actions": [LOG], "conditions": [{"op": "eq", "args": [[1]], "multiple": "one"}]},
        "0/conditions/0/multiple",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_rule_is_refused_by_the_path_of_its_fault(case: str) -> None:
    rule, path = BAD[case]
    with pytest.raises(errors.InvalidParameter) as why:
        inspection_rules.parse([rule])
    assert why.value.facts["path"] == path


# Regular expressions of rules mean what Python's mean, and end in time.

CARELESS = ("(a+)+b", "(a|aa)+b", "(a|a)*b", r"^(\w+\s?)*$")
ALIKE = (
    (r"dell", "(?i)Dell Inc."),
    (r"(?i)dell", "DELL"),
    (r"^R7[0-9]{2}$", "R740"),
    (r"(?<=R)7(?=4)", "R740"),
    (r"(.)\1", "aabb"),
    (r"(?P<n>.)(?P=n)", "abb"),
    (r"a{e}", "zzz"),
    (r"a{e}", "a{e}"),
    (r"(?:abc){e<=2}", "abx"),
    (r"[{e}]", "e"),
    (r"\{x\}", "{x}"),
    (r"a{,2}b", "aab"),
    (r"\N{BULLET}", "\u2022"),
    (r"x{2,3}", "xx"),
    (r"(?s).*", "a\nb"),
    (r"(?m)^b$", "a\nb"),
    (r"\Aa\Z", "a"),
)


@pytest.mark.parametrize(("expression", "text"), ALIKE)
def test_expressions_mean_what_they_mean_in_python(expression: str, text: str) -> None:
    assert conditions.contains(expression, text) == bool(re.search(expression, text))
    assert conditions.matches(expression, text) == bool(re.fullmatch(expression, text))


@pytest.mark.parametrize("expression", CARELESS)
def test_a_careless_expression_ends_while_others_work(expression: str) -> None:
    worst, ended = 0.0, threading.Event()

    def look() -> None:
        try:
            with contextlib.suppress(errors.InvalidParameter):
                conditions.contains(expression, "a" * 40 + "!")
        finally:
            ended.set()

    began = last = time.monotonic()
    threading.Thread(target=look).start()
    while not ended.wait(0.001):
        now = time.monotonic()
        worst, last = max(worst, now - last), now
    assert time.monotonic() - began < 30
    assert worst < 5, "another thread stood still meanwhile"


def test_an_expression_that_is_given_up_says_so() -> None:
    with pytest.raises(errors.InvalidParameter, match="given up after 1 s"):
        conditions.holds({"op": "contains", "args": {"value": "a" * 60, "regex": "(a|aa)+b"}}, {})


@pytest.mark.parametrize("expression", ["(", "[a--", r"\h", "(?R)", "a" * 5000, 7, "(?<n>a)"])
def test_invalid_expression_is_refused_with_its_place(expression: object) -> None:
    rule = {"op": "matches", "args": {"value": "a", "regex": expression}}
    with pytest.raises(errors.InvalidParameter) as refused:
        inspection_rules.check([rule], [])
    assert refused.value.facts["path"] == "conditions/0/args/regex"


ENDLESS = ("(?:a{65535}){65535}", "[a-z]{60000}[0-9]{60000}", r"(?:[(]{999}\({999}){999,}")


@pytest.mark.parametrize("expression", ENDLESS)
def test_an_expression_that_would_take_much_memory_is_refused(expression: str) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.InvalidParameter, match="items with its repetitions written out"):
        conditions.check_expression(expression)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 50_000  # KiB


@pytest.mark.parametrize("expression", ["[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[]{9}]{4}"])
def test_repetitions_of_a_usual_size_are_allowed(expression: str) -> None:
    conditions.check_expression(expression)
