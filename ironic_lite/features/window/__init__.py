"""Window: the web interface below ``/ui/``."""

NEEDS: tuple[str, ...] = ("events", "why", "statistics")
