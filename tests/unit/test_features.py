"""Features that are on, the ones that they need, and their import."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from ironic_lite import features
from ironic_lite.core import config, options
from tests.support import configurations

FOLDERS = {path.name for path in pathlib.Path(features.__file__).parent.glob("[!_]*")}


def test_all_features_are_on_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OS_FEATURES__ENABLED", raising=False)
    there = [name for name in options.FEATURES if name in FOLDERS]
    assert features.enabled(configurations.default()) == there
    assert set(options.FEATURES) >= FOLDERS


def test_empty_value_switches_all_features_off() -> None:
    conf = configurations.shared({"features__enabled": []})
    assert (features.api(conf), features.work(conf)) == ((), [])


def test_required_clean_data_needs_erasure_records() -> None:
    conf = configurations.shared({"features__enabled": [], "conductor__require_clean_data": True})
    with pytest.raises(config.ConfigError, match="Add erasures to"):
        features.enabled(conf)


@pytest.mark.feature("webhooks")
def test_feature_without_one_that_it_needs_is_refused() -> None:
    conf = configurations.shared({"features__enabled": ["webhooks"]})
    with pytest.raises(config.ConfigError, match=r"webhooks needs events\. Add events to"):
        features.enabled(conf)


@pytest.mark.feature("doctor")
def test_feature_that_is_named_twice_is_on_once() -> None:
    conf = configurations.shared({"features__enabled": ["doctor", "doctor"]})
    assert features.enabled(conf) == ["doctor"]


_MORE = {
    "doctor": {"certificates", "servers"},
    "move_in": {
        *("comparison", "defaults", "differences", "files", "tables"),
        *("source", "names", "checks", "report", "imports", "exports", "reversal"),
    },
}


def test_folder_of_a_feature_has_the_modules_of_features() -> None:
    top = pathlib.Path(features.__file__).parent
    for name in FOLDERS:
        found = {path.stem for path in (top / name).glob("*.py")} - {"__init__"}
        assert found - _MORE.get(name, set()) <= {
            "rules",
            "rows",
            "api",
            "work",
            "command",
            "dbsync",
        }, name


@pytest.mark.parametrize(
    ("program", "absent"),
    [("api.server", ("ironic_lite.conductor", "sushy")), ("cmd.conductor", ("pecan", "wsme"))],
)
def test_features_load_only_what_their_program_needs(program: str, absent: tuple[str, ...]) -> None:
    part = "api" if program == "api.server" else "work"
    source = f"""
import sys
from ironic_lite.core import threads
threads.native()
import ironic_lite.{program}
from ironic_lite import features
from ironic_lite.core import config
config.register(config.CONF)
config.CONF([], default_config_files=[], default_config_dirs=[])
features.{part}(config.CONF)
print(*(name for name in {absent} if name in sys.modules), *(
    name for name in sys.modules if name.startswith("ironic_lite.features.")
    and name.endswith(".{"work" if part == "api" else "api"}")
))
"""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
