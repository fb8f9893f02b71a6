"""A write that follows a power order at once waits for the order's lock, as Ironic's does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import drivers
from tests.support.operator import Operator

Serve = Callable[..., Operator]


def test_patch_right_after_a_power_order_succeeds(serve: Serve) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "set_power_state":
            time.sleep(0.3)
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    # As long as a loaded machine needs.
    operator = serve(registry=registry, conductor__node_locked_retry_interval=30)
    node = operator.enroll()
    power = f"/v1/nodes/{node}/states/power"
    assert operator.api.put(power, {"target": "power off"}).status == 202
    assert operator.shows(node)["reservation"] is not None
    assert operator.patches(node, extra__a=1).status == 200
    assert operator.api.put(power, {"target": "power on"}).status == 202
    assert operator.api.put(f"/v1/nodes/{node}/maintenance", {}).status == 202
