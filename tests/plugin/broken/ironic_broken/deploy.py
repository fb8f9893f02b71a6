"""Has a step whose priority is no number."""

from ironic_lite.drivers import base


class Deploy(base.Deploy):
    """Never comes to be."""

    @base.clean_step(priority="high")  # type: ignore[arg-type]  # that is the point
    def wipe(self, task: base.Task) -> None:
        """Nothing."""
