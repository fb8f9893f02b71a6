"""The whole service with all features off: it works, and answers their paths as unknown ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support import whole_api
from tests.support.service import Service, service

NODE = "0c7ed7c2-4d0b-4d4c-9e0b-f41ff6fbd1f7"
OPERATIONS = sorted(
    {
        (route.method, f"/v1{route.path}")
        for extension in whole_api.EXTENSIONS
        for each in extension.controllers
        for route, _ in each.exposed()
    }
)


@pytest.fixture(scope="module")
def bare() -> Iterator[Service]:
    with service("[features]\nenabled =\n") as found:
        found.start()
        found.up()
        yield found


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_path_of_a_feature_that_is_off_is_unknown(bare: Service, method: str, path: str) -> None:
    answer = bare.ask(method, re.sub(r"{\w+}", NODE, path))
    if path == "/v1/events":  # has Ironic's POST
        assert answer.status_code == 405
    else:
        assert answer.status_code == 404, answer.text
        assert re.search("There is no|Nothing answers", answer.text)


def test_documents_do_not_name_features_that_are_off(bare: Service) -> None:
    paths = bare.ask("GET", "/v1/openapi.json").json()["paths"]
    named = {(way.upper(), path) for path, ways in paths.items() for way in ways}
    assert named & set(OPERATIONS) == set()
    rules = bare.ask("GET", "/v1/whoami").json()["rules"]
    added = {rule.name for extension in whole_api.EXTENSIONS for rule in extension.rules}
    assert added & set(rules) == set()


def test_node_is_cleaned_without_features(bare: Service) -> None:
    made = bare.ask("POST", "/v1/nodes", {"name": "n0", "driver": "fake-hardware"})
    assert made.status_code == 201
    for target, state in (("manage", "manageable"), ("provide", "available")):
        path = "/v1/nodes/n0/states/provision"
        assert bare.ask("PUT", path, {"target": target}).status_code == 202
        bare.settled("n0", state)
