"""HTTP as the API speaks it: requests, routes, answers and refusals, limits, streams of events."""

from __future__ import annotations
