"""What a later major release removes is declared, marked and reported."""

from __future__ import annotations

import pytest

from ironic_lite.api import openapi
from ironic_lite.core import config, deprecations, options
from tests.support import whole_api


def test_every_deprecated_option_is_an_old_name_and_its_successor_exists() -> None:
    rows = [row for row in deprecations.TABLE if row.what.startswith("[")]
    assert rows
    for row in rows:
        group, name = row.what[1:].split("]")
        of, option = config.option_named((group, name)) or (None, None)
        assert option is not None
        assert option.dest != name
        assert row.instead == f"[{of}]{option.dest}"
        assert of in options.GROUPS


def test_a_row_lasts_until_a_major_release() -> None:
    assert {row.gone for row in deprecations.TABLE} == {"2.0"}
    assert len({row.what for row in deprecations.TABLE}) == len(deprecations.TABLE)


def test_a_deprecated_route_is_marked_in_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    row = deprecations.Deprecation("GET /v1/nodes/detail", "1.0", "2.0", "GET /v1/nodes")
    monkeypatch.setattr(deprecations, "TABLE", (row,))
    paths = openapi.document(whole_api.ROWS, *whole_api.ANSWERS)["paths"]
    marked = [
        f"{method} {path}"
        for path, found in paths.items()
        for method, operation in found.items()
        if operation.get("deprecated")
    ]
    assert marked == ["get /v1/nodes/detail"]
