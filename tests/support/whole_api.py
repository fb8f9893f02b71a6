"""The API with the features that are on, as the programs build it."""

from __future__ import annotations

from typing import Any

from ironic_lite import features
from ironic_lite.api import app, controllers, middleware, policy
from tests.support import configurations

EXTENSIONS = features.api(configurations.default())
CONTROLLERS = controllers.of(EXTENSIONS)
ROWS = [row for each in CONTROLLERS for row in each.exposed()]
"""Routes with their handlers."""
ANSWERS = [each.answers() for each in EXTENSIONS]

for _extension in EXTENSIONS:
    policy.add(_extension.rules)


def build(*given: Any, **more: Any) -> middleware.RequestMiddleware:
    """Return the API as `app.build`, with features."""
    return app.build(*given, **more, extensions=EXTENSIONS)


def routed(*given: Any, **more: Any) -> app.Application:
    """Return the application as `app.routed`, with features."""
    return app.routed(*given, **more, extensions=EXTENSIONS)
