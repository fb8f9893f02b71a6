"""Old APIs with new conductors, and the reverse, by the contracts as they were recorded.

``contracts.json`` holds each version of the RPC contract of a release, what it has in addition to
the one before: the arguments that a method needs, and those that it takes. It is written when a
version is made, and never changed. There is one version yet, so tests of a pin add another, before
which two methods and an argument did not exist.
"""

from __future__ import annotations

import functools
import inspect
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.service import Endpoints
from ironic_lite.core import config, context
from ironic_lite.rpc import client, contract
from tests.support.rpc_conductor import Serve

Contract = dict[str, dict[str, list[str]]]
RECORDED: dict[str, Contract] = json.loads(
    (pathlib.Path(__file__).parent / "contracts.json").read_text()
)
Connect = Callable[[str], client.RpcClient]
OPTIONAL = "continue_node_clean.step_id"
NEWER = ("inject_nmi", "vif_list", OPTIONAL)
"""What conductors of a release before this one lack."""


def _contract(version: str) -> Contract:
    """Return all methods of a version."""
    found: Contract = {}
    for each, methods in RECORDED.items():
        found.update(methods)
        if each == version:
            break
    return found


def _present() -> Contract:
    found: Contract = {}
    for name, method in vars(contract.Conductor).items():
        if not name.startswith("_") and callable(method):
            given = list(inspect.signature(method).parameters.values())[2:]
            needs = [one.name for one in given if one.default is one.empty]
            found[name] = {"needs": needs, "takes": [a.name for a in given if a.name not in needs]}
    return found


def test_the_newest_recording_is_the_contract() -> None:
    assert _contract(contract.VERSION) == _present()


def test_additions_of_each_version_are_recorded() -> None:
    before: Contract = {}
    added = {}
    for version, methods in RECORDED.items():
        for name, about in methods.items():
            known = before.get(name)
            if known is None:
                added[name] = version
            else:
                new = {*about["needs"], *about["takes"]} - {*known["needs"], *known["takes"]}
                added.update({f"{name}.{argument}": version for argument in new})
        before.update(methods)
    assert {name: version for name, version in added.items() if version != "1.0"} == contract.SINCE
    assert list(RECORDED) == [version for version, _ in contract.HISTORY]


@pytest.mark.parametrize("version", RECORDED)
def test_a_conductor_takes_all_that_older_apis_ask(version: str) -> None:
    for name, about in _contract(version).items():
        taken = inspect.signature(getattr(Endpoints, name))
        least = dict.fromkeys(about["needs"])
        taken.bind(None, None, **least)
        taken.bind(None, None, **least, **dict.fromkeys(about["takes"]))


def _older() -> Contract:
    """Return the methods of the version before the newest one of `newer`."""
    return {
        name: {
            key: [word for word in words if f"{name}.{word}" not in NEWER]
            for key, words in about.items()
        }
        for name, about in _present().items()
        if name not in NEWER
    }


def _conductor() -> Any:
    """Return an older endpoint, whose methods answer with what they were given."""
    made: dict[str, Any] = {}
    for name, about in _older().items():
        words = [*about["needs"], *(f"{argument}=None" for argument in about["takes"])]
        listed = f", *, {', '.join(words)}" if words else ""
        exec(f"def {name}(self, context{listed}):\n    return sorted(locals())\n", made)
    endpoint = type("Old", (), {name: made[name] for name in _older()})()
    endpoint.gate = type("Gate", (), {"set": lambda self: None})()
    return endpoint


@pytest.fixture
def named() -> Iterator[Callable[[str], None]]:
    """Write a name into the configuration."""
    yield lambda name: config.CONF.set_override("pin_release_version", name)
    config.CONF.clear_override("pin_release_version")


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the contract is younger than 1.0, the version of the release 0.0."""
    monkeypatch.setattr(contract, "SINCE", dict.fromkeys(NEWER, "1.1"))
    monkeypatch.setattr(contract, "_OPTIONAL", frozenset({OPTIONAL}))
    monkeypatch.setattr(contract, "RELEASES", {"0.0": "1.0", "0.1": "1.1"})


@pytest.fixture
def pinned(named: Callable[[str], None], newer: None) -> None:
    """Let the API stand beside conductors of the release 0.0."""
    named("0.0")


def test_an_api_asks_older_conductors_only_what_they_know(
    local: str, serve: Serve, connect: Connect, ctxt: context.Context, pinned: None
) -> None:
    serve(local, "old", _conductor())
    asked, known = connect(local), _older()
    for name, about in _present().items():
        # A cast would give no answer.
        call = functools.partial(asked._ask, name, "old", None)
        args = dict.fromkeys((*about["needs"], *about["takes"]), "x")
        if name not in known:
            with pytest.raises(errors.Pinned, match=f"from release 0.0 .*do not support {name};"):
                call(ctxt, **args)
            continue
        expected = {*known[name]["needs"], *known[name]["takes"], "self", "context"}
        assert set(call(ctxt, **args)) == expected


def test_without_a_pin_an_older_conductor_says_what_it_lacks(
    local: str, serve: Serve, connect: Connect, ctxt: context.Context
) -> None:
    serve(local, "old", _conductor())
    with pytest.raises(errors.UnknownMethod, match="inject_nmi"):
        connect(local).conductor("old").inject_nmi(ctxt, node_uuid="x")


def test_a_cast_leaves_out_what_an_older_conductor_does_not_know(newer: None) -> None:
    args = {"node_uuid": "x", "step_id": "y"}
    assert contract.arguments_for("continue_node_clean", args, "0.0") == {"node_uuid": "x"}
    assert contract.arguments_for("continue_node_clean", args, "0.1") == args
    assert contract.arguments_for("continue_node_clean", args, None) == args


def test_an_argument_that_cannot_be_left_out_is_refused(
    monkeypatch: pytest.MonkeyPatch, newer: None
) -> None:
    monkeypatch.setattr(contract, "_OPTIONAL", frozenset())
    args = {"node_uuid": "x", "step_id": "y"}
    with pytest.raises(errors.Pinned, match=OPTIONAL):
        contract.arguments_for("continue_node_clean", args, "0.0")


# -- which release ---------------------------------------------------------------------------


def test_this_release_is_on_the_list() -> None:
    assert contract.RELEASES[contract.release_of(config.version())] == contract.VERSION


@pytest.mark.parametrize(("name", "found"), [("0.1", "0.1"), ("", None), ("queens", None)])
def test_names_of_releases(named: Callable[[str], None], name: str, found: str | None) -> None:
    named(name)
    assert contract.pinned_release(config.CONF) == found


def test_a_release_that_never_was_is_refused(named: Callable[[str], None]) -> None:
    named("0.7")
    with pytest.raises(config.ConfigError, match=r"pin_release_version: 0\.7 is not a release"):
        contract.pinned_release(config.CONF)
