"""Packed recordings: what is kept, in which form, and that no private text is left."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

from tests.recorded import packing, recordings

ROOT = "/redfish/v1"
TREE: dict[str, dict[str, Any]] = {
    f"{ROOT}/Systems/SN12345678": {"SerialNumber": "SN12345678", "Model": "R 1"},
    f"{ROOT}/JsonSchemas/Bios": {"Id": "Bios"},
    f"{ROOT}/AccountService/Accounts/1": {"UserName": "alice"},
    f"{ROOT}/Chassis/1": {"error": {"code": "Base.1.0.GeneralError"}},
    "": {"Name": "a page about the recording"},
    f"{ROOT}/Registries/Base.json": {"RegistryEntries": {"Messages": {}}},
    f"{ROOT}/Registries/Bios.json": {
        "RegistryEntries": {
            "Attributes": [{"AttributeName": "Mode", "Type": "String", "HelpText": "long"}],
            "Menus": [],
        }
    },
}


def packed() -> dict[str, Any]:
    return packing.unpack(packing.pack(TREE.items(), {"machine": "R 1"}))


def test_private_texts_are_replaced_in_values_and_paths() -> None:
    whole = packed()
    assert "SN12345678" not in json.dumps(whole)
    (path,) = (path for path in whole["documents"] if "/Systems/" in path)
    assert whole["documents"][path] == {"SerialNumber": path.rpartition("/")[2], "Model": "R 1"}


def test_documents_that_no_operation_reads_are_left_out() -> None:
    whole = packed()
    assert whole["left_out"] == {
        "schemas": 1,
        "users, sessions and keys": 1,
        "answers with an error": 1,
        "files without a path": 1,
        "registries of messages": 1,
    }
    assert whole["documents"][f"{ROOT}/Registries/Bios.json"]["RegistryEntries"] == {
        "Attributes": [{"AttributeName": "Mode", "Type": "String"}]
    }


def test_a_folder_of_documents_is_packed(tmp_path: pathlib.Path) -> None:
    place = tmp_path / "tree" / "redfish" / "v1" / "Systems"
    place.mkdir(parents=True)
    (place / "index.json").write_text('{"Name": "Systems"}', encoding="utf-8")
    (tmp_path / "tree" / "flat.json").write_text(f'{{"@odata.id": "{ROOT}/"}}', encoding="utf-8")
    file = tmp_path / "m.json.xz"
    facts = ["--machine", "M", "--firmware", "1", "--source", "here", "--licence", "own"]
    command = [sys.executable, "-m", "tests.recorded.packing", str(tmp_path / "tree"), str(file)]
    root = pathlib.Path(__file__).parents[2]
    subprocess.run([*command, *facts], check=True, timeout=60, cwd=root)
    assert set(packing.unpack(file.read_bytes())["documents"]) == {ROOT, f"{ROOT}/Systems"}


def test_recordings_are_small_and_name_their_origin() -> None:
    for name, file in recordings.files().items():
        assert file.stat().st_size < 400 * 1024, name
        assert all(recordings.load(name).shown.values()), name
