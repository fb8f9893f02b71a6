"""Install a package of drivers for one test, as another project would."""

from __future__ import annotations

import itertools
import pathlib
import sys

import pytest
from stevedore import ExtensionManager

_NUMBERS = itertools.count(1)


def install(
    monkeypatch: pytest.MonkeyPatch,
    folder: pathlib.Path,
    modules: dict[str, str],
    entry_points: str,
) -> None:
    """Put modules (name to source) and an entry_points.txt into ``folder`` and on the path."""
    name = f"outside{next(_NUMBERS)}"
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
    # The cache in the user's home is not for packages that live as long as a test.
    monkeypatch.setattr("stevedore._cache._c._disable_caching", True)
