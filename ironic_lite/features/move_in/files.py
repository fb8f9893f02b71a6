"""``ironic-lite-status check-ironic-conf``: what becomes of each line of Ironic's files.

Files of options, policy files and password files are read as they are, whether or not this machine
has a configuration of its own. The options say which other files there are, else their names do.
"""

from __future__ import annotations

import argparse
import enum
import json
import os
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from oslo_config import cfg

from ironic_lite.api import policy
from ironic_lite.api.auth import identify
from ironic_lite.core import config, masking, options
from ironic_lite.core.config import Assigned, Judgement
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import OptionVerdict
from ironic_lite.drivers import registry
from ironic_lite.features.move_in.defaults import DEFAULTS

ABOUT = (
    "show what becomes of each line of Ironic's configuration: options, policy files, password "
    "files. Exit status 0: nothing is lost; 1: a line is ignored with a loss; 2: one is refused"
)
_MOST_FILES = 1000
_HOOK_OPTIONS = frozenset({("inspector", "hooks"), ("redfish", "inspection_hooks")})
_KINDS: Mapping[str, str] = {
    **{registry.option_of(kind): kind for kind in (options.HARDWARE_TYPE, *options.KINDS)},
    **{f"default_{kind}_interface": kind for kind in options.KINDS},
}
"""Options of [DEFAULT] with names of drivers, and the kind of these."""
_OWN_FOLDER = "use a folder of its own: Ironic's files serve running machines, and are the way back"
_OWN_VALUES: Mapping[tuple[str, str], str] = {
    ("DEFAULT", "host"): "use another name than Ironic's conductor has",
    ("DEFAULT", "state_path"): _OWN_FOLDER,
    ("database", "connection"): "use a database of its own: Ironic's is read only, by the import",
    ("deploy", "http_root"): _OWN_FOLDER,
    ("dnsmasq", "dhcp_hostsdir"): _OWN_FOLDER,
    ("dnsmasq", "dhcp_optsdir"): _OWN_FOLDER,
    ("pxe", "tftp_root"): _OWN_FOLDER,
}
"""Options that this service must not share with an Ironic beside it."""


class FileKind(enum.Enum):
    """The content of a file, which decides how it is read."""

    OPTIONS = "options"
    POLICY = "policy"
    USERS = "users"
    RPC_USERS = "users of RPC"
    OTHER = "other"


_USER_FILE = "http_basic_auth_user_file"
_NAMING: Mapping[tuple[str, str], FileKind] = {
    ("json_rpc", _USER_FILE): FileKind.RPC_USERS,
    ("ironic_networking_json_rpc", _USER_FILE): FileKind.RPC_USERS,
    ("oslo_policy", "policy_file"): FileKind.POLICY,
    ("oslo_policy", "policy_dirs"): FileKind.POLICY,
    ("DEFAULT", _USER_FILE): FileKind.USERS,
}
"""Options that name a file or a folder of files, and the kind of these; the last one counts."""
_NAMES: tuple[tuple[re.Pattern[str], FileKind], ...] = (
    (re.compile(r".*htpasswd.*"), FileKind.USERS),
    (re.compile(r"policy.*\.(yaml|yml|json)"), FileKind.POLICY),
    (re.compile(r".*\.conf"), FileKind.OPTIONS),
)
_POLICY_FOLDER = "policy.d"
"""The default of [oslo_policy]policy_dirs."""


class LineVerdict(NamedTuple):
    """The verdict on a line of a file, or on a whole file.

    :ivar kind: ``option``, ``rule``, ``user`` or ``file``.
    :ivar value: with secrets masked, as ``text``.
    """

    kind: str
    verdict: str
    name: str
    file: str
    text: str = ""
    group: str | None = None
    value: str = ""
    line: int = 0
    loss: bool = False

    def __str__(self) -> str:
        what = self.name if self.kind == "file" else f"{self.kind} {self.name}"
        if self.kind == "option":
            what = f"[{self.group}]{self.name}"
        value = f" = {self.value}" if self.kind in ("option", "rule") else ""
        place = f" ({self.file}:{self.line})" if self.file and self.kind != "file" else ""
        loss = " (a loss)" if self.loss and self.verdict == OptionVerdict.IGNORED else ""
        return f"{self.verdict:8} {what}{value}{place}{loss}{self.text and f': {self.text}'}"


def check(argv: Sequence[str], prog: str) -> int:
    """Print what becomes of each line of Ironic's files, and return the exit status.

    :raises config.ConfigError: a file cannot be read.
    """
    parser = argparse.ArgumentParser(prog, description=ABOUT)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="PATH", help="file, folder")
    parser.add_argument("--all", action="store_true", help="show lines that stay as they are, too")
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument(
        "--defaults", action="store_true", help="show unset options whose default differs here"
    )
    asked = parser.parse_args(argv)
    rows = list(_judge(asked.paths, defaults=asked.defaults))
    if asked.json:
        print(json.dumps([_object_of(row) for row in rows], indent=2))
    else:
        shown = (one for one in rows if asked.all or one.verdict != OptionVerdict.KEPT or one.text)
        print("\n".join(map(str, shown)))
    if any(one.verdict == OptionVerdict.REFUSED for one in rows):
        return 2
    return int(any(one.loss for one in rows))


def _object_of(row: LineVerdict) -> Json:
    return {**row._asdict(), "file": row.file or None}


# -- files ---------------------------------------------------------------------------------------


def _judge(paths: Sequence[pathlib.Path], *, defaults: bool) -> Iterator[LineVerdict]:
    files = {path: kind for place in paths for path, kind in _files_at(place)}
    assigned, broken = _read_options([p for p, k in files.items() if k is FileKind.OPTIONS])
    named = _named_files(assigned)
    for path, kind in files.items():
        files[path] = named.get(path.name) or named.get(f"{path.parent.name}/") or kind
    of_kind = {kind: [p for p, found in files.items() if found is kind] for kind in FileKind}
    conf, judged = config.judge_files([p for p in of_kind[FileKind.OPTIONS] if p not in broken])
    for option in judged:
        yield _option_row(_judge_own(_judge_names(conf, option)))
    if defaults:
        yield from _default_rows({one.option.key for one in judged})
    for path in of_kind[FileKind.OPTIONS]:
        if path in broken:
            yield _refused_file(path, broken[path])
    yield from _policy_rows(of_kind[FileKind.POLICY], str(conf.api.auth_strategy))
    for path in of_kind[FileKind.USERS]:
        yield from _user_rows(path)
    for path in of_kind[FileKind.RPC_USERS]:
        yield _ignored_file(path, "users of Ironic's RPC; this service has none")
    for path in of_kind[FileKind.OTHER]:
        yield _ignored_file(path, "no file of options, rules or users; not read")


def _files_at(place: pathlib.Path) -> list[tuple[pathlib.Path, FileKind]]:
    """Return files and what their names say; a file that is named itself has options if in doubt.

    :raises config.ConfigError: the place cannot be read, is too large, or an empty folder.
    """
    found = []
    try:
        if not place.is_dir():
            return [(place, _kind_by_name(place, FileKind.OPTIONS))]
        for folder, folders, names in os.walk(place, onerror=_raise):
            # Names with a dot are of editors, and of volumes that Kubernetes mounts twice.
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            paths = (pathlib.Path(folder, name) for name in sorted(names) if name[0] != ".")
            found += [(path, _kind_by_name(path, FileKind.OTHER)) for path in paths]
            if len(found) > _MOST_FILES:
                raise config.ConfigError(reason=f"{place}: has more than {_MOST_FILES} files")
    except OSError as why:
        raise config.ConfigError(reason=f"cannot read {place}: {why.strerror}") from None
    if not found:
        raise config.ConfigError(reason=f"{place}: has no files")
    return found


def _raise(why: OSError) -> None:
    raise why


def _kind_by_name(path: pathlib.Path, otherwise: FileKind) -> FileKind:
    if path.exists() and not path.is_file():
        return FileKind.OTHER  # a pipe, which would never end
    if path.parent.name == _POLICY_FOLDER:
        return FileKind.POLICY
    return next((kind for form, kind in _NAMES if form.fullmatch(path.name)), otherwise)


def _read_options(
    paths: Iterable[pathlib.Path],
) -> tuple[list[Assigned], dict[pathlib.Path, str]]:
    """Return the options of all files, and the files of another form with the reason.

    :raises config.ConfigError: a file cannot be read.
    """
    found: list[Assigned] = []
    broken = {}
    for path in paths:
        config.read_text(path)
        try:
            found += config.values_of_file(str(path))
        except cfg.ParseError as why:  # whose text repeats the line, which may be a secret
            broken[path] = f"line {why.lineno}: {why.msg.rstrip('.').lower()}"
    return found, broken


def _named_files(assigned: Sequence[Assigned]) -> dict[str, FileKind]:
    """Return names of files, and of folders with a slash, that options name.

    The folder of a path does not count, because the files may be a copy.
    """
    found: dict[str, FileKind] = {}
    for key, kind in _NAMING.items():
        for one in assigned:
            if one.key == key:
                slash = "/" if key[1] == "policy_dirs" else ""
                found |= {pathlib.PurePath(value).name + slash: kind for value in one.values}
    return found


def _refused_file(path: pathlib.Path, reason: str) -> LineVerdict:
    return LineVerdict("file", OptionVerdict.REFUSED, str(path), str(path), reason, loss=True)


def _ignored_file(path: pathlib.Path, reason: str) -> LineVerdict:
    return LineVerdict("file", OptionVerdict.IGNORED, str(path), str(path), reason)


# -- options -------------------------------------------------------------------------------------


def _judge_own(one: Judgement) -> Judgement:
    """Add what an option that is kept needs beside an Ironic."""
    advice = _OWN_VALUES.get(one.option.key)
    return one._replace(text=advice) if advice and one.verdict is OptionVerdict.KEPT else one


def _judge_names(conf: Any, one: Judgement) -> Judgement:
    """Judge the names in an option with enabled drivers, a default one, or inspection hooks."""
    group, name = one.option.key
    if one.verdict is not OptionVerdict.KEPT:
        return one
    if (group, name) in _HOOK_OPTIONS:
        refused, left_out = registry.missing_hooks(conf[group][name]), []
    elif group == "DEFAULT" and name in _KINDS:
        names = [conf[name]] if isinstance(conf[name], str) else conf[name] or []
        found = registry.enabled_names(_KINDS[name], names)
        refused = list(found.refused.values())
        left_out = [f"{name} is left out: {text}" for name, text in found.left_out.items()]
    else:
        return one
    if refused:
        return one._replace(verdict=OptionVerdict.REFUSED, text="; ".join(refused), loss=True)
    return one._replace(text=" ".join(left_out))


def _option_row(one: Judgement) -> LineVerdict:
    option = one.option
    secret = masking.secret(option.name) or option.name.endswith("_key")
    value = ", ".join(option.values)
    if option.name == "transport_url":  # it may have several hosts, each with a login
        value = re.sub("(?<=://).*(?=@)", masking.MASK, value, flags=re.DOTALL)
    return LineVerdict(
        "option",
        one.verdict,
        option.name,
        option.place,
        one.text,
        option.group,
        str(masking.MASK if secret and value else masking.mask(value)),
        option.line,
        one.loss,
    )


def _default_rows(given: Collection[tuple[str, str]]) -> Iterator[LineVerdict]:
    """Yield the options that files leave out, and whose default differs from Ironic's."""
    for (group, name), theirs in DEFAULTS.items():
        found = config.option_named((group, name))
        if (group, name) not in given and found is not None:
            ours = found[1].default
            listed = ", ".join(ours) if isinstance(ours, list) else ours
            text = f"the default of Ironic; here it is {'unset' if listed is None else listed}"
            yield LineVerdict("option", "default", name, "", text, group, theirs)


# -- policy --------------------------------------------------------------------------------------

_SHOW_SECRETS = frozenset({"show_password", "show_instance_secrets"})
_OPEN_NAMES = ("baremetal:step:execute:", "baremetal:node:hold:create:")
"""Beginnings of rules that a policy file may add."""
_REFERENCE = re.compile(r"(?<![\w:])rule:([^\s()]+)")
_NO_RULES = {
    "http_basic": "with http_basic no rule is asked: each user of the password file has all rights",
    "noauth": "with noauth no rule is asked: each client has all rights",
}


def _policy_rows(paths: Sequence[pathlib.Path], strategy: str) -> Iterator[LineVerdict]:
    """Yield the verdicts on all rules; rules may name those of other files."""
    rules: dict[pathlib.Path, tuple[Json, Mapping[str, int]]] = {}
    for path in paths:
        try:
            rules[path] = _read_rules(config.read_text(path))
        except (yaml.YAMLError, ValueError, RecursionError) as why:
            mark = getattr(why, "problem_mark", None)
            where = f"line {mark.line + 1}: no YAML" if mark else str(why)
            yield _refused_file(path, where)
            continue
        if strategy in _NO_RULES:
            yield _ignored_file(path, _NO_RULES[strategy])
    try:
        # Loaded only if needed, because oslo.policy comes with an extra.
        from ironic_lite.api.policy import enforcement  # noqa: PLC0415
    except ImportError:
        lacking = "oslo.policy is not installed to judge it: pip install 'ironic_lite[keystone]'"
        yield from (_refused_file(path, lacking) for path in rules)
        return
    checks = {
        (path, name): _ParsedCheck.read(enforcement.parsed_check, value)
        for path, (values, _) in rules.items()
        for name, value in values.items()
    }
    known = {*policy.BY_NAME, *(name for _, name in checks)}
    used = {name for one in checks.values() for name in one.names}
    for (path, name), parsed in checks.items():
        values, lines = rules[path]
        verdict, text, loss = _judge_rule(name, parsed, known, used)
        value = str(masking.mask(str(values[name])))
        line = lines.get(name, 0)
        yield LineVerdict("rule", verdict, name, str(path), text, None, value, line, loss)


def _read_rules(text: str) -> tuple[Json, Mapping[str, int]]:
    """Return the rules of a policy file, and their lines.

    :raises ValueError: it has another form.
    """
    if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
        raise ValueError("has aliases, which may stand for any number of values; write them out")
    found = yaml.safe_load(text)
    if found is None:
        return {}, {}
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ValueError("no object of names and checks")
    document = yaml.compose(text, yaml.SafeLoader)
    return found, {key.value: key.start_mark.line + 1 for key, _ in document.value}


class _ParsedCheck(NamedTuple):
    """A check of a rule: whether it was understood, and the names of rules in it."""

    understood: bool
    names: frozenset[str]

    @classmethod
    def read(cls, parse: Callable[[Any], str], value: object) -> _ParsedCheck:
        """Parse a check. oslo.policy makes ``!``, which nobody passes, of what it cannot parse."""
        try:
            found, text = parse(value), str(value)
        except Exception:  # whatever a parser may raise
            return cls(False, frozenset())
        lost = found.count("!") > text.count("!") or (found == "!" != text.strip())
        return cls(not lost, frozenset(_REFERENCE.findall(found)))


def _judge_rule(
    name: str, parsed: _ParsedCheck, known: Collection[str], used: Collection[str]
) -> tuple[OptionVerdict, str, bool]:
    missing = sorted(parsed.names - set(known))
    if not parsed.understood:
        return OptionVerdict.REFUSED, "its check cannot be parsed", True
    if missing:
        return OptionVerdict.REFUSED, f"there is no rule {', '.join(missing)}", True
    if name in _SHOW_SECRETS:
        return OptionVerdict.IGNORED, "no rule shows secrets here", False
    if name in policy.BY_NAME or name in used or name.startswith(_OPEN_NAMES):
        return OptionVerdict.KEPT, "", False
    return OptionVerdict.IGNORED, "there is no such rule here, see docs/access.rst", True


# -- users ---------------------------------------------------------------------------------------

_PLAIN_NAME = re.compile(r"[\w.@+-]{1,64}")
"""Names that are shown; others may be a hash in the wrong place."""


def _user_rows(path: pathlib.Path) -> Iterator[LineVerdict]:
    """Yield the verdict on each line of a password file; hashes are not shown."""
    lines_of: dict[str, int] = {}
    for number, line in enumerate(map(str.strip, config.read_text(path).splitlines()), 1):
        user, colon, rest = line.partition(":")
        if not line or (not colon and line.startswith("#")):
            continue
        # Fields after the hash are ignored, as in a line of passwd(5).
        hashed = rest.partition(":")[0].strip().encode()
        shown = user if _PLAIN_NAME.fullmatch(user) and colon else masking.MASK
        first = lines_of.setdefault(user, number) if colon else number
        verdict, text = OptionVerdict.REFUSED, ""
        if not colon:
            text = "the line has no colon"
        elif not identify.HASH.fullmatch(hashed):
            text = "no bcrypt hash; use htpasswd -B"
        elif first != number:
            text = f"the user is in line {first}, too"
        else:
            verdict = OptionVerdict.KEPT
        yield LineVerdict("user", verdict, shown, str(path), text, line=number, loss=bool(text))
