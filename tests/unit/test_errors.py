"""An error keeps its class, its sentence and its facts wherever it is carried."""

from __future__ import annotations

import datetime
import json
import pickle
import re
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.domain import failures
from ironic_lite.drivers.ipmi import faults

# Status by branch, as a caller of HTTP must see it.
BRANCHES = {
    errors.InvalidRequest: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.NotAcceptable: 406,
    errors.Conflict: 409,
    errors.PreconditionFailed: 412,
    errors.TooLarge: 413,
    errors.Unavailable: 503,
    errors.HardwareError: 500,
    errors.StepsUnavailable: 202,
}
# What the specifications answer with.
ANSWERS = {
    errors.InvalidState: 400,
    errors.NodeInMaintenance: 400,
    errors.NodeRetired: 409,  # S4.7
    errors.NodeProtected: 403,
    errors.NodeLocked: 409,
    errors.NoFreeWorker: 503,
    errors.TooManyActions: 503,
    errors.NoConductor: 503,
    errors.NodeNotFound: 404,
    errors.InterfaceNotFound: 400,
    errors.StepsUnavailable: 202,  # S1.36
}
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
FACTS = st.dictionaries(
    st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(
        lambda name: name not in {"self", "message"}
    ),
    PLAIN | st.lists(PLAIN, max_size=3),
    max_size=4,
)


def family(root: type[errors.Error]) -> Iterator[type[errors.Error]]:
    yield root
    for child in root.__subclasses__():
        yield from family(child)


OURS = sorted(
    {kind for kind in family(errors.Error) if kind.__module__ == errors.__name__},
    key=lambda kind: kind.__name__,
)


def same(one: errors.Error, other: errors.Error) -> bool:
    return (type(one), one.message, one.facts) == (type(other), other.message, other.facts)


# -- the tree --------------------------------------------------------------------------------


@pytest.mark.parametrize(("branch", "status"), BRANCHES.items())
def test_a_whole_branch_has_one_status(branch: type[errors.Error], status: int) -> None:
    assert {int(kind.status) for kind in family(branch)} == {status}


@pytest.mark.parametrize(("kind", "status"), ANSWERS.items())
def test_the_specified_refusals_have_their_status(kind: type[errors.Error], status: int) -> None:
    assert int(kind.status) == status


def test_every_error_is_offered_by_the_package() -> None:
    assert all(getattr(errors, kind.__name__) is kind for kind in OURS)


def test_no_two_errors_share_a_name_because_they_cross_rpc_by_name() -> None:
    names = [kind.__name__ for kind in family(errors.Error)]
    assert sorted(names) == sorted(set(names))


def test_the_tree_drawn_in_the_docstring_names_no_class_that_is_not_there() -> None:
    drawn = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", errors.__doc__ or ""))
    assert drawn - {kind.__name__ for kind in OURS} == set()


def test_retryable_errors_are_those_that_may_pass() -> None:
    assert {kind.__name__ for kind in OURS if kind.retryable} == {
        "NodeLocked",
        "KeyInUse",
        "NotYet",
        "ConcurrentUpdate",
        "Unavailable",
        "NoFreeWorker",
        "NoConductor",
        "ConductorNotListening",
        "ConductorUnresponsive",
        "TooManyActions",
        "TooManyBatches",
        "FeatureOff",
        "Stopping",
        "TooManyRequests",
        "TooManyKeys",
        "Pinned",
        "DiskFull",
        "OpenError",
        "DownloadFailed",
        "BmcUnreachable",
        "DeadlinePassed",
        "AgentChanged",
        "AgentUnreachable",
        "AgentBusy",
        "Interrupted",
    }


def test_a_failed_step_is_told_apart_by_its_kind() -> None:
    assert issubclass(errors.CleanStepFailed, errors.StepFailed)  # S2.8
    assert issubclass(errors.DeployStepFailed, errors.StepFailed)  # S3.17


# -- the sentence ----------------------------------------------------------------------------


def test_the_facts_fill_the_sentence() -> None:
    error = errors.NodeLocked(node="n1", host="h1")
    assert error.message == (
        "Node n1 is locked by host h1, please retry after the current operation is completed."
    )
    assert str(error) == error.message
    assert error.code == "NodeLocked"


def test_a_raiser_may_choose_the_words_and_keeps_the_facts() -> None:
    error = errors.NodeLocked("Busy with {n1}.", node="n1")
    assert (error.message, error.facts) == ("Busy with {n1}.", {"node": "n1"})


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_a_forgotten_fact_shows_its_name_instead_of_another_error(
    kind: type[errors.Error],
) -> None:
    named = set(re.findall(r"{(\w+)}", kind.text))
    message = kind().message
    assert message
    assert all(f"<{name}>" in message for name in named)


def test_braces_in_a_fact_are_text() -> None:
    assert errors.HardwareError(reason="{0} {oops!r}").message == "{0} {oops!r}"


def test_words_added_on_the_way_are_shown() -> None:
    error = errors.PowerFailure(target="power on", reason="no")
    error.message = f"{error.message} Also, it smokes."
    assert str(error) == error.message
    assert same(pickle.loads(pickle.dumps(error)), error)


# -- the way across --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(message=st.none() | st.text(max_size=40), facts=FACTS)
def test_every_error_survives_json_and_pickle(
    kind: type[errors.Error], message: str | None, facts: dict[str, object]
) -> None:
    error = kind(message, **facts)
    assert same(errors.from_data(json.loads(json.dumps(error.as_data()))), error)
    assert same(pickle.loads(pickle.dumps(error)), error)


def test_the_data_say_all_that_a_run_record_keeps() -> None:
    assert errors.BmcUnreachable(address="a", reason="r").as_data() == {
        "code": "BmcUnreachable",
        "text": "Cannot reach the BMC at a: r. Check the address and the network.",
        "status": int(HTTPStatus.INTERNAL_SERVER_ERROR),
        "retryable": True,
        "facts": {"address": "a", "reason": "r"},
    }


def test_the_error_of_a_newer_process_is_still_an_error_with_its_words() -> None:
    error = errors.from_data(
        {"code": "NotInventedYet", "text": "Too hot.", "facts": {"celsius": 9}}
    )
    assert type(error) is errors.Error
    assert (error.message, error.facts) == ("Too hot.", {"celsius": 9})


@pytest.mark.parametrize("data", [{}, {"code": None}, {"code": "Exception"}, {"facts": None}])
def test_broken_data_are_a_plain_error(data: dict[str, object]) -> None:
    error = errors.from_data(data)
    assert type(error) is errors.Error
    assert error.message == errors.Error.text


def test_the_drawing_at_the_top_shows_every_class() -> None:
    drawn = set(re.findall(r"[A-Z][A-Za-z]+", errors.__doc__ or ""))
    assert {kind.__name__ for kind in OURS} - drawn == set()


def test_text_of_a_machine_is_made_storable() -> None:
    said = "no \0 disk \ud83d here"
    why = errors.HardwareError(reason=said, more={"lines": [said]})
    assert why.message == "no \ufffd disk \ufffd here"
    assert why.facts == {"reason": why.message, "more": {"lines": [why.message]}}
    assert errors.HardwareError(said).message == why.message


# Records of errors: the first error of a chain, its facts, masks and bounds.

SILENT = errors.BmcUnreachable(address="bmc-7", reason="no answer")


def step_failed(why: errors.Error) -> errors.Error:
    return errors.CleanStepFailed("Clean step a.b failed: x", step="a.b", reason="x").because(why)


def test_record_keeps_code_and_text_and_adds_the_cause() -> None:
    assert failures.record(step_failed(SILENT)) == {
        "code": "CleanStepFailed",
        "text": "Clean step a.b failed: x",
        "retryable": True,
        "cause": {
            "code": "BmcUnreachable",
            "text": SILENT.message,
            "retryable": True,
            "facts": {"address": "bmc-7", "reason": "no answer"},
        },
    }


def test_error_without_a_cause_is_its_own_cause() -> None:
    found = failures.of(errors.MissingParameter(path="driver_info/x"))
    assert (found["code"], found["facts"]) == ("MissingParameter", {"path": "driver_info/x"})
    assert failures.code(failures.record(SILENT)) == "BmcUnreachable"
    assert failures.code({}) is None


def test_cause_is_the_first_error_of_the_chain_with_the_facts_between() -> None:
    between = errors.HardwareError(reason="on child node c", child="c").because(SILENT)
    facts = failures.of(step_failed(between))["facts"]
    assert facts == {"child": "c", "address": "bmc-7", "reason": "no answer"}


@pytest.mark.parametrize("kind", [errors.StepFailed, errors.CleanStepFailed])
def test_step_failed_of_a_driver_has_the_words_of_the_driver(kind: type[errors.Error]) -> None:
    found = failures.of(step_failed(kind(step="a.b", reason="no disk", disk=3)))
    assert (found["code"], found["text"]) == ("HardwareError", "no disk")
    assert found["facts"] == {"step": "a.b", "reason": "no disk", "disk": 3}


def test_error_that_is_raised_from_another_keeps_it_across_rpc() -> None:
    try:
        raise errors.PowerFailure(target="power on", reason="no") from SILENT
    except errors.Error as why:
        error = why
    for again in (errors.from_data(error.as_data()), pickle.loads(pickle.dumps(error))):
        assert again.cause is not None
        assert (again.code, again.cause.code) == ("PowerFailure", "BmcUnreachable")
        assert again.cause.facts == SILENT.facts


def test_data_of_an_error_without_a_cause_have_no_new_key() -> None:
    assert "cause" not in SILENT.as_data()


def test_chain_that_leads_back_ends() -> None:
    one, other = errors.HardwareError(reason="1"), errors.HardwareError(reason="2")
    one.because(other), other.because(one)
    assert one.causes == [one, other]
    assert failures.of(one)["text"] == "2"


def test_secrets_of_facts_are_masked() -> None:
    error = errors.HardwareError(
        "get https://ann:pw1@x/i?key=k1",
        reason="see http://x/y?sig=k2 and ftp://bob:pw2@x/z",
        url="https://x/i?key=k3",
        password="pw3",
        more={"auth_token": "k4", "path": "/a"},
    )
    found = json.dumps(failures.of(step_failed(error)))
    assert not [word for word in ("pw1", "pw2", "pw3", "k1", "k2", "k3", "k4") if word in found]
    assert "/a" in found


def test_facts_become_plain_json() -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5)  # as in the database
    error = errors.HardwareError(reason="x", at=at, kind=errors.HardwareError, some=(1, "b"))
    facts = failures.of(error)["facts"]
    assert facts["at"] == "2026-01-02T03:04:05+00:00"
    assert facts["some"] == [1, "b"]
    assert json.loads(json.dumps(facts)) == facts


def long_text(times: int) -> st.SearchStrategy[str]:
    """Return texts of up to 100 characters, ``times`` over: to draw each character takes long."""
    return st.builds(lambda text, count: text * count, st.text(max_size=100), st.integers(1, times))


ANY = st.recursive(
    st.none() | st.integers() | long_text(30),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=50), inner),
    max_leaves=60,
)


@settings(max_examples=40)
@given(text=long_text(90), facts=st.dictionaries(st.from_regex("[a-z]{1,9}"), ANY))
def test_cause_is_bounded(text: str, facts: dict[str, object]) -> None:
    facts.pop("message", None)
    found = failures.of(step_failed(errors.HardwareError(text, **facts)))
    assert len(json.dumps(found)) <= failures.MOST_BYTES
    assert found.keys() == {"code", "text", "retryable", "facts"}


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (
            "Set Chassis Power Control to Up/On failed: Command not supported in present state",
            "0xd5",
        ),
        ("Unable to send RAW command (channel=0x0 netfn=0x6 lun=0x0 cmd=0x1 rsp=0xc1)", "0xc1"),
        ("Get Device ID command failed: Unknown (0xD9)", "0xd9"),
        ("Close Session command failed: Invalid command on LUN", "0xc2"),
        ("Error: Unable to establish IPMI v2 / RMCP+ session", None),
    ],
)
def test_completion_codes_in_the_words_of_ipmitool(said: str, code: str | None) -> None:
    assert faults.found(said) == code
