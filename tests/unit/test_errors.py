"""An error keeps its class, its sentence and its facts wherever it is carried."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironic_lite import errors

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
    {kind for kind in family(errors.Error) if kind.__module__.startswith(f"{errors.__name__}.")},
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
    assert {kind.__name__ for kind in OURS} | {"from_data"} == set(errors.__all__)
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
