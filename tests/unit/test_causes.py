"""Records of errors: the first error of a chain, its facts, masks and bounds."""

from __future__ import annotations

import datetime
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.domain import causes
from ironic_lite.drivers.ipmi import completion

SILENT = errors.BmcUnreachable(address="bmc-7", reason="no answer")


def step_failed(why: errors.Error) -> errors.Error:
    return errors.CleanStepFailed("Clean step a.b failed: x", step="a.b", reason="x").because(why)


def test_record_keeps_code_and_text_and_adds_the_cause() -> None:
    assert causes.record(step_failed(SILENT)) == {
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
    found = causes.of(errors.MissingParameter(path="driver_info/x"))
    assert (found["code"], found["facts"]) == ("MissingParameter", {"path": "driver_info/x"})
    assert causes.code(causes.record(SILENT)) == "BmcUnreachable"
    assert causes.code({}) is None


def test_cause_is_the_first_error_of_the_chain_with_the_facts_between() -> None:
    between = errors.HardwareError(reason="on child node c", child="c").because(SILENT)
    facts = causes.of(step_failed(between))["facts"]
    assert facts == {"child": "c", "address": "bmc-7", "reason": "no answer"}


@pytest.mark.parametrize("kind", [errors.StepFailed, errors.CleanStepFailed])
def test_step_failed_of_a_driver_has_the_words_of_the_driver(kind: type[errors.Error]) -> None:
    found = causes.of(step_failed(kind(step="a.b", reason="no disk", disk=3)))
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
    assert causes.of(one)["text"] == "2"


def test_secrets_of_facts_are_masked() -> None:
    error = errors.HardwareError(
        "get https://ann:pw1@x/i?key=k1",
        reason="see http://x/y?sig=k2 and ftp://bob:pw2@x/z",
        url="https://x/i?key=k3",
        password="pw3",
        more={"auth_token": "k4", "path": "/a"},
    )
    found = json.dumps(causes.of(step_failed(error)))
    assert not [word for word in ("pw1", "pw2", "pw3", "k1", "k2", "k3", "k4") if word in found]
    assert "/a" in found


def test_facts_become_plain_json() -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5)  # as in the database
    error = errors.HardwareError(reason="x", at=at, kind=errors.HardwareError, some=(1, "b"))
    facts = causes.of(error)["facts"]
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
    found = causes.of(step_failed(errors.HardwareError(text, **facts)))
    assert len(json.dumps(found)) <= causes.MOST_BYTES
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
    assert completion.found(said) == code
