"""Each route can be found by a search for its path in the module of its controller."""

from __future__ import annotations

import inspect
import re

import pytest

from ironic_lite.api.http import expose
from tests.support import whole_api


@pytest.mark.parametrize("controller", whole_api.CONTROLLERS, ids=lambda one: one.__qualname__)
def test_the_module_of_a_controller_contains_the_paths_of_its_routes(
    controller: type[expose.Controller],
) -> None:
    module = inspect.getmodule(controller)
    assert module is not None
    source = inspect.getsource(module)
    paths = {route.path for route, _ in controller.exposed()}
    assert paths
    assert {
        path for path in paths if not re.search(rf'("|/v1){re.escape(path)}(?![\w/{{])', source)
    } == set()
