"""Disks of an inspection beside those of an erasure record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ironic_lite.domain import erasure_records

Json = dict[str, Any]
PROOF = {"disks": [{"serial": "S-1", "wwn": "0x5A"}, {"serial": "S2"}, {}], "not_erased": []}


@pytest.mark.parametrize(
    ("disks", "found"),
    [
        ([], []),
        ([{"serial": "S-1"}, {"serial": "S2"}], []),
        ([{"serial": "S-1", "wwn": "0x99"}], []),
        ([{"serial": "other", "wwn": "0x5a"}], []),
        ([{"serial": " s1 "}], []),
        ([{"name": "/dev/sda"}, {"serial": "", "wwn": None}, {"serial": 7}, "text", None], []),
        ([{"serial": "S-1"}, {"serial": "S3"}], ["s3"]),
        ([{"serial": "S3", "wwn": "0x99"}], ["0x99"]),
        ({"serial": "S3"}, []),
        (None, []),
    ],
)
def test_stranger_is_a_disk_that_the_record_does_not_name(disks: Any, found: list[str]) -> None:
    inventory: Json = {"disks": disks}
    assert erasure_records.unrecorded_disks(inventory, json.dumps(PROOF)) == found
