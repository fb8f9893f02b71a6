"""A small fleet with something to see on each page of the window."""

from __future__ import annotations

import dataclasses
import urllib.parse

from tests.support import service
from tests.window import acts

MARKUP = '"><img src=x onerror="hacked=1">\'$HOME'
HOSTILE = f"{MARKUP}\u202e\u200b"
"""What machines and people may write into texts."""
VISIBLE = f"{MARKUP}\u2039U+202E\u203a\u2039U+200B\u203a"
"""How the window shows it."""
DISK = {"name": MARKUP, "serial": "S3EV-1", "result": "erased", "level": "clear"}
LONG = "W" * 300


@dataclasses.dataclass(frozen=True)
class Sights:
    """Addresses of the window's pages by what they show; all but ``fleet`` are of one thing."""

    addresses: dict[str, str]


def make(running: service.Service) -> Sights:
    """Make nodes, runs, records, a hold and a batch; return where they are shown."""
    info = {"fake_erasures": [DISK], "fake_ports": ["52:54:00:00:00:01"]}
    more = {"resource_class": HOSTILE, "description": HOSTILE + LONG, "extra": {HOSTILE: HOSTILE}}
    look = running.create("look-1", driver_info=info, **more)
    port = {"node_uuid": look, "address": "52:54:00:00:00:02", "physical_network": HOSTILE[:60]}
    assert running.ask("POST", "/v1/ports", port).status_code == 201
    running.provision("look-1", "manage", "manageable")
    running.provision("look-1", "inspect", "manageable")
    running.provision("look-1", "provide", "available")
    acts.failed_node(running, "look-2", f"{HOSTILE}\x1b[31m red {LONG}")
    hold = {"kind": "hardware", "reason": HOSTILE}
    assert running.ask("POST", "/v1/nodes/look-1/holds", hold).status_code == 201
    body = {
        "nodes": ["look-1", "look-2"],
        "request": {"power": "power on"},
        "name": HOSTILE,
        "waves": [1, "100%"],
    }
    answer = running.ask("POST", "/v1/batches", body)
    assert answer.status_code == 201, answer.text
    batch = answer.json()["uuid"]
    service.until(lambda: running.get(f"/v1/batches/{batch}")["state"] == "done", "the batch")
    (record,) = running.get("/v1/nodes/look-1/erasures")["erasures"]
    run = running.get("/v1/nodes/look-2/why")["run"]["uuid"]
    conductor = running.get("/v1/conductors")["conductors"][0]["hostname"]
    made = running.ask("POST", "/v1/webhooks", {"url": f"https://hooks.example.org/{LONG}"})
    assert made.status_code == 201, made.text
    hook = made.json()["uuid"]
    pause = [{"op": "replace", "path": "/state", "value": "paused"}]
    assert running.ask("PATCH", f"/v1/webhooks/{hook}", pause).status_code == 200
    of_class = {"resource_class": HOSTILE}
    tabs = ("states", "ports", "inventory", "history", "holds", "erasures")
    return Sights(
        {
            "fleet": "/v1/nodes",
            "fleet, filtered": f"/v1/nodes?{urllib.parse.urlencode(of_class)}&~q=look",
            "map": "/v1/nodes?~map=class&~q=look",
            "node": "/v1/nodes/look-1",
            "failed node": "/v1/nodes/look-2/why",
            "run of a node": f"/v1/nodes/look-2/runs/{run}",
            **{f"{tab} of a node": f"/v1/nodes/look-1/{tab}" for tab in tabs},
            "console of a node": "/v1/nodes/look-1/states/console",
            "fields of a node": "/v1/nodes/look-1?~tab=fields",
            "log of a run": f"/v1/nodes/look-2/runs/{run}/log",
            "runs": "/v1/runs",
            "failed runs": "/v1/runs?state=failed&latest=true",
            "run": f"/v1/runs/{run}",
            "batches": "/v1/batches",
            "batch": f"/v1/batches/{batch}",
            "events": "/v1/events",
            "evidence": "/v1/erasures",
            "erasure record": f"/v1/erasures/{record['uuid']}",
            "steps": "/v1/stats/steps",
            "doctor": "/v1/doctor",
            "doctor of a node": "/v1/doctor?node=look-2",
            "conductors": "/v1/conductors",
            "conductor": f"/v1/conductors/{conductor}",
            "webhooks": "/v1/webhooks",
            "webhook": f"/v1/webhooks/{hook}",
            "settings": "/v1/whoami",
            "words": "/v1/whoami?~tab=words",
        }
    )
