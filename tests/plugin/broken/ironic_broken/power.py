"""Needs a library that is not installed."""

import a_library_nobody_has  # type: ignore[import-not-found]  # that is the point

from ironic_lite.drivers import base


class Power(base.Power):
    """Never comes to be."""

    library = a_library_nobody_has
