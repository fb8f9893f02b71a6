"""The judge of webhooks: every event, in order, signed, and never another body. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.records import Delivery, History, Hook

Found = Iterator[tuple[str, str]]


def gaps(history: History) -> Found:
    """Receivers get every event, in order, and each ``webhook-id`` with one body."""
    for hook in history.hooks:
        ours = [one for one in history.deliveries if one.hook == hook.uuid]
        yield from _of_position(history, hook, ours)
        yield from _of_order(hook, ours)
        yield from _of_bodies(hook, ours)


def _of_position(history: History, hook: Hook, ours: list[Delivery]) -> Found:
    if hook.state != "active":
        yield hook.uuid, f"the webhook is {hook.state}"
    elif hook.cursor < history.upto:
        yield hook.uuid, f"the cursor is {hook.cursor}, the newest event {history.upto}"
    known = {ident for one in ours if one.accepted for ident in one.events}
    for event in history.events:
        if event.id <= hook.cursor and event.id not in known:
            yield hook.uuid, f"event {event.id} ({event.kind} {event.event}) was not delivered"


def _of_order(hook: Hook, ours: list[Delivery]) -> Found:
    known: set[int] = set()
    newest = 0
    for one in ours:
        for ident in one.events if one.accepted else ():
            if ident not in known and ident < newest:
                yield hook.uuid, f"event {ident} was delivered after {newest}"
            known.add(ident)
            newest = max(newest, ident)


def _of_bodies(hook: Hook, ours: list[Delivery]) -> Found:
    bodies: dict[str, str] = {}
    for one in ours:
        if not one.signed:
            yield hook.uuid, f"the signature of {one.ident} is wrong"
        if bodies.setdefault(one.ident, one.body) != one.body:
            yield hook.uuid, f"{one.ident} came again with another body"
