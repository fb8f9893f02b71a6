"""Options as files and the environment write them: misspelt names, and names of Ironic.

oslo.config reads only what is registered, so a wrong name has no effect and no error there.
"""

from __future__ import annotations

import difflib
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from oslo_config import cfg

from ironic_lite.core import options
from ironic_lite.core.configuration import Configuration

NO_OPTION = "a $name in it is no option; write $$ for a dollar sign"  # the name may be a password

_VARIABLE = re.compile(r"OS_(?P<group>[A-Z0-9_]+?)__(?P<name>[A-Z0-9_]+)")
"""The form in which oslo.config names an option in the environment."""
_REFERENCE = re.compile(r"(?<!\$)(?:\$\$)*\$(?:\{(?P<braced>[\w.]+)\}|(?P<named>[A-Za-z_][\w.]*))")
"""The use of another option in a value, as oslo.config expands it."""
_TYPO = 1.5
"""Letters in which a misspelt option name may differ from a known one."""


class Assigned(NamedTuple):
    """An option that is set, by a file's path or a variable's name; each line of a file a value."""

    place: str
    group: str
    name: str
    values: list[str]

    @property
    def key(self) -> tuple[str, str]:
        """Group and name, as oslo.config compares them."""
        return self.group, self.name.replace("-", "_")

    def __str__(self) -> str:
        return f"[{self.group}]{self.name} (in {self.place})"


def values(conf: cfg.ConfigOpts) -> list[Assigned]:
    """Return every option that files or the environment set."""
    found = []
    folders = [pathlib.Path(folder) for folder in conf.config_dirs]
    files = [*conf.config_file, *(path for folder in folders for path in folder.glob("*.conf"))]
    for path in map(str, files):
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(path, sections).parse()
        found += [
            Assigned(path, _normal_group(group), name, given)
            for group, names in sections.items()
            for name, given in names.items()
        ]
    for variable, value in os.environ.items():
        named = _VARIABLE.fullmatch(variable)
        if named:
            group, name = _normal_group(named["group"]), named["name"].lower()
            found.append(Assigned(variable, group, name, [value]))
    return found


def _normal_group(group: str) -> str:
    return group if group == "DEFAULT" else group.lower()


# -- options of Ironic -----------------------------------------------------------------------


def ironic_fault(assigned: Sequence[Assigned]) -> str | None:
    """Return all options of Ironic whose loss would weaken security, each with its advice."""
    found = []
    for one in assigned:
        known = options.REFUSED.get(one.key)
        if known is not None and not all(known.harmless(v.strip().lower()) for v in one.values):
            found.append(f"{one}: {known.do}")
    return f"options of Ironic that have no effect here: {'; '.join(found)}" if found else None


def login_fault(conf: Configuration, assigned: Sequence[Assigned]) -> str | None:
    """Return the fault of a login that is set up but not chosen: Ironic's default is keystone."""
    chosen = {one.name for one in assigned if one.group in ("api", "DEFAULT")}
    login = next((one for one in assigned if one.group == "keystone_authtoken"), None)
    if login is None or "auth_strategy" in chosen or conf.api.auth_strategy != "noauth":
        return None
    return (
        f"{login}: set [api]auth_strategy = keystone, too, or noauth if no login is wanted: "
        "without it clients need none"
    )


# -- references ------------------------------------------------------------------------------


def reference_fault(conf: cfg.ConfigOpts, assigned: Sequence[Assigned]) -> str | None:
    """Return the fault of a $name of an unset option, which would be expanded to nothing.

    A list would be expanded with brackets and quotes.
    """
    for one in assigned:
        if one.key[1] not in _known_names(conf, one.group):
            continue
        for used in (ref for value in one.values for ref in _REFERENCE.finditer(value)):
            fault = _fault_of(conf, one.group, used["braced"] or used["named"])
            if fault is not None:
                return f"[{one.group}]{one.name}: {fault} (in {one.place})"
    return None


def _fault_of(conf: cfg.ConfigOpts, group: str, used: str) -> str | None:
    """Return the fault of a ``name`` or ``group.name``, looked up as oslo.config does."""
    own, dot, name = used.partition(".")
    places = [(conf if group == "DEFAULT" else conf[group], used), (conf, used)]
    if dot and own in options.GROUPS:
        places.insert(0, (conf[own], name))
    for found, key in places:
        if key not in found:
            continue
        try:
            value = found[key]
        except (cfg.Error, ValueError):
            return None  # a fault of that option
        if isinstance(value, list | dict):
            return f"uses ${used}, which is a list; write its items instead"
        return f"uses ${used}, which is not set" if value is None else None
    return NO_OPTION


# -- names -----------------------------------------------------------------------------------


def name_fault(conf: cfg.ConfigOpts, assigned: Sequence[Assigned]) -> str | None:
    """Return the first misspelt group or option of ours, with the right name."""
    for one in assigned:
        known = _known_names(conf, one.group)
        if not known:
            fault = _group_fault(conf, one)
        elif one.key[1] in known:
            fault = _variable_fault(one)
        else:
            close = None if one.key in options.REFUSED else _similar(one.name, known)
            fault = f"no such option; did you mean {close}?" if close else None
        if fault is not None:
            return f"[{one.group}]{one.name}: {fault} (in {one.place})"
    return None


def _group_fault(conf: cfg.ConfigOpts, one: Assigned) -> str | None:
    """Return the fault of a group with almost the name of one of ours that has the option.

    Groups of other projects may be in the file; they do not have both.
    """
    ours = {known.lower(): known for known in options.GROUPS}
    close = ours.get(_similar(one.group.lower(), ours) or "")
    if close and one.group.lower() != close and one.key[1] in _known_names(conf, close):
        return f"no such group; did you mean [{close}]?"
    return None


def _variable_fault(one: Assigned) -> str | None:
    """Return the fault of another name in the environment, where oslo.config reads only ours."""
    if not _VARIABLE.fullmatch(one.place):
        return None
    right = next((ours for ours, old in _other_names() if old == one.key), None)
    return right and f"has no effect in the environment; set OS_{right} instead"


def _other_names() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each other name of an option, after the option as ``GROUP__NAME``."""
    for group, opts in options.GROUPS.items():
        for opt in opts:
            for old in opt.deprecated_opts:
                yield f"{group}__{opt.dest}".upper(), (old.group or group, old.name or opt.dest)


def _similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name of which ``name`` is a misspelling."""
    alike = max(0.6, 1 - _TYPO / len(name))
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=alike)), None)


def _known_names(conf: cfg.ConfigOpts, group: str) -> set[str]:
    """Return all names ``group`` may hold, other ones too; empty for a foreign group."""
    names = {opt.name for opt in options.GROUPS.get(group, ())}
    names |= {name for _, (of, name) in _other_names() if of == group}
    if group == "DEFAULT":
        names |= {opt.name for opt in options.LIBRARY} | options.LIBRARY_DEFAULTS | set(conf)
    return {name.replace("-", "_") for name in names}


# -- options without effect ------------------------------------------------------------------


def doubts(conf: cfg.ConfigOpts, assigned: Sequence[Assigned]) -> Iterator[str]:
    """Yield what is set and has no effect: options of our groups, and of groups of Ironic alone."""
    foreign: dict[str, list[str]] = {}
    for one in assigned:
        known = _known_names(conf, one.group)
        if one.key in options.REFUSED or one.key[1] in known:
            continue
        if known:
            yield f"{one}, which this version does not know"
        elif one.group in options.GROUPS_OF_IRONIC:
            foreign.setdefault(one.group, []).append(one.name)
    if foreign:
        listed = ", ".join(f"[{group}]{', '.join(names)}" for group, names in foreign.items())
        yield f"options of groups of Ironic that nothing here reads: {listed}"
