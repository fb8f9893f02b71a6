"""Facts of the domain for the window, as the JavaScript module ``facts.js``.

It is made at start from the tables of the service, so it is never stale.
"""

from __future__ import annotations

import orjson

from ironic_lite.core import masking
from ironic_lite.core.json_types import Json
from ironic_lite.domain import holds, states, verbs, versions
from ironic_lite.domain.states import State


def module() -> bytes:
    """Return the source of ``facts.js``: one exported constant for each fact."""
    lines = (f"export const {name} = {orjson.dumps(value).decode()};" for name, value in _facts())
    return ("\n".join(lines) + "\n").encode()


def _facts() -> tuple[tuple[str, object], ...]:
    return (
        ("VERSION", f"1.{versions.LAST}"),
        ("STATES", {str(state): states.kind(state).value for state in State}),
        ("VERBS", [_verb(verb) for verb in verbs.TABLE]),
        ("SECRET_KEY", masking.SECRET_PATTERN),
    )


def _verb(verb: verbs.Verb) -> Json:
    """Return a verb; what is empty or false is left out."""
    facts = {
        "target": verb.target,
        "alias": any(one.event == verb.event for one in verbs.TABLE[: verbs.TABLE.index(verb)]),
        "needs": verb.needs,
        "erases": verb.event in holds.REFUSED[holds.Block.ERASE],
        "from": [str(state) for state in State if verbs.possible(verb, state)],
    }
    return {name: value for name, value in facts.items() if value}
