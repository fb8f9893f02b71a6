"""Holds: the operations that each block refuses, their words, and the blocks of new ones."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import holds, verbs
from ironic_lite.domain.holds import ALLOCATION, POWER, REMOVAL, Block, Hold

NOON = datetime.datetime(2026, 11, 22, 12)

ERASES = {"deleted", "undeploy", "rebuild", "active", "deploy", "clean", "provide", "cleaned"}
ERASES |= {"retry", "service"}
VERBS = {verb.target for verb in verbs.TABLE}
REFUSED: dict[str, set[str]] = {
    "erase": ERASES | {ALLOCATION},
    "use": {"active", "deploy", "rebuild", ALLOCATION},
    "verbs": (VERBS - {"abort", "unhold"}) | {ALLOCATION},
    "power": {POWER},
    "forget": {REMOVAL},
}
"""What each block refuses, by the targets of verbs."""


def made(*blocks: str, **values: Any) -> Hold:
    """Return a hold."""
    given: dict[str, Any] = {
        "uuid": "h1",
        "kind": "audit",
        "reason": "case 7",
        "blocks": tuple(map(Block, blocks)),
        "until": None,
        "created_at": NOON,
        "created_by": "ann",
    }
    return Hold(**given | values)


@pytest.mark.parametrize("block", REFUSED)
@pytest.mark.parametrize("said", sorted(VERBS | {ALLOCATION, POWER, REMOVAL}))
def test_block_refuses_its_operations(block: str, said: str) -> None:
    operation = verbs.BY_TARGET[said].event if said in VERBS else said
    why = holds.refusal("n1", [made(block)], operation, said)
    assert (why is not None) is (said in REFUSED[block])
    assert holds.refusable(operation) is (said not in ("abort", "unhold"))


def test_every_block_is_in_the_table() -> None:
    assert set(REFUSED) == set(map(str, Block)) == set(map(str, holds.REFUSED))


def test_first_hold_that_blocks_gives_the_sentence() -> None:
    end = datetime.datetime(2027, 1, 31)
    held = [
        made("use"),
        made("erase", "forget", uuid="h2", kind="legal", reason="case 2026-114.", until=end),
        made("verbs", uuid="h3"),
    ]
    why = holds.refusal("n1", held, "delete", "deleted")
    assert why is not None
    assert why.message == (
        "Node n1 is held (legal, by ann since 2026-11-22 12:00:00 UTC, until 2027-01-31 00:00:00 "
        "UTC): case 2026-114. It blocks erase, and so deleted. End the hold with DELETE "
        "/v1/nodes/n1/holds/h2 first."
    )
    assert (why.status, why.retryable, why.facts["hold"]) == (409, False, "h2")


def test_unknown_author_and_end_are_left_out() -> None:
    why = holds.refusal("n1", [made("power", created_by=None)], POWER, "power off")
    assert why is not None
    assert why.message.startswith(
        "Node n1 is held (audit, since 2026-11-22 12:00:00 UTC): case 7. It blocks power, and so "
        "power off."
    )


@pytest.mark.parametrize(
    ("kind", "named", "blocks"),
    [
        ("legal", None, ("erase", "forget")),
        ("hardware", [], ("use",)),
        ("freeze", None, ("verbs", "power", "forget")),
        ("freeze", ["power", "forget", "verbs"], ("verbs", "power", "forget")),
        ("audit", ["power", "erase", "power"], ("erase", "power")),
    ],
)
def test_kind_brings_its_blocks_or_the_request_names_them(
    kind: str, named: list[str] | None, blocks: tuple[str, ...]
) -> None:
    assert holds.blocks_of(kind, named) == blocks


def test_blocks_that_contradict_the_kind_are_refused() -> None:
    with pytest.raises(errors.InvalidParameter, match=r"blocks: the kind legal brings") as caught:
        holds.blocks_of("legal", ["power"])
    assert caught.value.facts["path"] == "blocks"


@pytest.mark.parametrize("named", [None, []])
def test_other_kinds_need_blocks(named: list[str] | None) -> None:
    with pytest.raises(errors.MissingParameter, match=r"erase, use, verbs, power, forget"):
        holds.blocks_of("audit", named)


ROW = {**made("erase")._asdict(), "blocks": "erase", "ended_at": None}


@pytest.mark.parametrize(
    ("until", "ended_at", "shown"),
    [
        (None, None, None),
        (NOON, None, NOON),
        (NOON + datetime.timedelta(seconds=1), None, None),
        (NOON + datetime.timedelta(seconds=1), NOON, NOON),
    ],
)
def test_hold_ends_by_its_time_or_by_request(until: Any, ended_at: Any, shown: Any) -> None:
    document = holds.document({**ROW, "until": until, "ended_at": ended_at}, NOON)
    assert (document["ended_at"], document["blocks"]) == (shown, ["erase"])


def test_blocks_of_a_newer_release_are_left_out() -> None:
    assert holds.read({**ROW, "blocks": "erase,levitate"}).blocks == (Block.ERASE,)
