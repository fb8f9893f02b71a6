"""Each state of a node: its buttons are the verbs that ``why`` offers."""

from __future__ import annotations

import re

from playwright import sync_api

from ironic_lite.domain import states, verbs
from ironic_lite.domain.states import State
from tests.support import service
from tests.window.acts import shown, write
from tests.window.conftest import expect

LABELS = {
    "active": "Deploy",
    "deleted": "Undeploy",
    "unhold": "Go on",
    "available": "Make available",
}
"""Labels of the verbs that are not called by their target."""
SET = (
    "UPDATE nodes SET provision_state = ?, target_provision_state = ?, reservation = 'elsewhere',"
    " provision_updated_at = '2026-01-01 00:00:00.000000', lock_token = ?,"
    " lock_expires = '2099-01-01 00:00:00.000000' WHERE uuid = ?"
)
OTHERS = re.compile(r"^(Stop at|Power|Reboot|Shut|Hold|Maintenance|End maint|Retire|Data|Delete)")


def label(target: str) -> str:
    """Return the label of the button of a verb."""
    return f"{LABELS.get(target, target.capitalize())}…"


def test_buttons_are_the_verbs_that_why_offers_in_every_state(
    page: sync_api.Page, live: service.Service
) -> None:
    uuids = {state: live.create(f"state-{state.replace(' ', '-')}") for state in State}
    wrong = []
    page.goto(f"{live.url}/ui/#/v1/whoami")
    for state, uuid in uuids.items():
        # Its lock keeps conductors from a node that seems to be worked on.
        write(live, SET, state, states.STATES[state].target, uuid, uuid)
        page.evaluate("at => { location.hash = at; }", f"#/v1/nodes/{uuid}/why")
        page.locator(".node-head").get_by_text(state, exact=True).wait_for()
        shown(page)
        why = live.get(f"/v1/nodes/{uuid}/why")
        assert why["provision_state"] == state
        buttons = page.locator(".actions button:not(.quiet)")
        labels = buttons.locator("> span:first-child").all_text_contents()
        found = {text for text in labels if not OTHERS.match(text)}
        # Verbs with two names have one button.
        offered = {label(one["target"]) for one in why["verbs"]}
        events = {verbs.BY_TARGET[one["target"]].event for one in why["verbs"]}
        if not found <= offered or len(found) != len(events):
            wrong.append(f"{state}: {sorted(found)}, but why offers {sorted(offered)}")
        for one in why["verbs"]:
            if not one["refused"] or label(one["target"]) not in found:
                continue
            button = buttons.filter(has_text=re.compile(f"^{re.escape(label(one['target']))}"))
            expect(button).to_have_attribute("aria-disabled", "true")
            expect(button).to_contain_text(one["refused"]["text"])
    assert wrong == [], "\n".join(wrong)
