"""Vendor passthru: calls of vendor-specific methods of a node or a hardware type."""

from __future__ import annotations

import logging
from typing import Any

from ironic_lite.conductor.flows import bmc_operations
from ironic_lite.conductor.flows.bmc_operations import Operation
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.work.task import Task
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.domain import passthru
from ironic_lite.domain.passthru import Call, Route
from ironic_lite.drivers import base

LOG = logging.getLogger(__name__)


class Vendor:
    """Endpoints that find a marked method and call it."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    # -- of one node -------------------------------------------------------------------------

    def get_node_vendor_passthru_methods(self, context: Context, *, node_uuid: str) -> Json:
        """Return the methods of a node's vendor interface."""
        vendor = self.tasks.look(context, node_uuid).driver.vendor
        return _shown_routes(passthru.collect(vendor, passthru.NODE))

    def vendor_passthru(
        self,
        context: Context,
        *,
        node_uuid: str,
        vendor_method: str,
        http_method: str,
        info: Json,
    ) -> Json:
        """Call a node's method, at once or by a worker, with or without the lock.

        The method's mark decides.
        """
        call = Call(http_method, info)
        looking = self.tasks.look(context, node_uuid)
        route = passthru.pick(looking.driver.vendor, passthru.NODE, vendor_method, http_method)
        if not route.lock:
            looking.driver.vendor.check_passthru(looking, vendor_method, call)
            return _answer_of(route, getattr(looking.driver.vendor, vendor_method)(looking, call))
        with self.tasks.lock(context, node_uuid, worker=route.async_call) as task:
            return _call_locked(task, vendor_method, call)

    # -- of a hardware type ------------------------------------------------------------------

    def get_driver_vendor_passthru_methods(self, context: Context, *, driver: str) -> Json:
        """Return the methods of a hardware type's default vendor interface."""
        return _shown_routes(passthru.collect(self._default_vendor(driver), passthru.DRIVER))

    def driver_vendor_passthru(
        self, context: Context, *, driver: str, vendor_method: str, http_method: str, info: Json
    ) -> Json:
        """Call a hardware type's method; an asynchronous failure is only logged."""
        call, vendor = Call(http_method, info), self._default_vendor(driver)
        route = passthru.pick(vendor, passthru.DRIVER, vendor_method, http_method)
        vendor.check_driver_passthru(vendor_method, call)
        method = getattr(vendor, vendor_method)
        if not route.async_call:
            return _answer_of(route, method(call))
        self.tasks.runtime.workers.claim(reserved=True)
        self.tasks.runtime.workers.run(lambda: _call_alone(driver, vendor_method, method, call))
        return _answer_of(route, None)

    def _default_vendor(self, driver: str) -> base.Vendor:
        vendor = self.tasks.runtime.registry.default(driver, "vendor")
        assert isinstance(vendor, base.Vendor)
        return vendor


def _call_locked(task: Task, name: str, call: Call) -> Json:
    """Call a method under the lock; the interface may have changed meanwhile."""
    vendor = task.driver.vendor
    route = passthru.pick(vendor, passthru.NODE, name, call.verb)
    vendor.check_passthru(task, name, call)
    method = getattr(vendor, name)
    facts = {"order": "vendor_passthru", "method": name, "verb": call.verb}
    order = Operation(f"call the vendor method {name}", facts)
    if not route.async_call:
        return _answer_of(
            route, bmc_operations.at_once(task, order, lambda task: method(task, call))
        )
    bmc_operations.begin(task, order)
    task.hand_over(bmc_operations.carry_out, order, lambda task: method(task, call))
    return _answer_of(route, None)


def _call_alone(driver: str, name: str, method: Any, call: Call) -> None:
    try:
        method(call)
    except Exception as why:  # drivers may raise anything
        LOG.error("The vendor method %s of %s failed", name, driver, exc_info=why)


def _answer_of(route: Route, result: object) -> Json:
    shown = None if route.async_call else result
    return {"return": shown, "async": route.async_call, "attach": route.attach}


def _shown_routes(routes: dict[str, Route]) -> Json:
    return {
        name: {
            "http_methods": list(route.verbs),
            "async": route.async_call,
            "description": route.description,
            "attach": route.attach,
            "require_exclusive_lock": route.lock,
        }
        for name, route in routes.items()
    }
