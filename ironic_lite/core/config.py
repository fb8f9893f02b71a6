"""Load `options` from files, environment and command line; errors are one line.

Every entry point calls `load`; all other code reads ``config.CONF.group.option``.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import functools
import importlib.metadata
import ipaddress
import itertools
import logging
import os
import pathlib
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_log import log

from ironic_lite import errors
from ironic_lite.core import context, deprecations, log_lines, options
from ironic_lite.core.options import Configuration, Group, OptionVerdict

# Options as files and the environment write them: misspelt names, and names of Ironic.
#
# oslo.config reads only what is registered, so a wrong name has no effect and no error there.

NO_SUCH_REFERENCE = (
    "a $name in it is no option; write $$ for a dollar sign"  # the name may be a password
)

_VARIABLE = re.compile(r"OS_(?P<group>[A-Z0-9_]+?)__(?P<name>[A-Z0-9_]+)")
"""The form in which oslo.config names an option in the environment."""
_REFERENCE = re.compile(r"(?<!\$)(?:\$\$)*\$(?:\{(?P<braced>[\w.]+)\}|(?P<named>[A-Za-z_][\w.]*))")
"""The use of another option in a value, as oslo.config expands it."""
_TYPO = 1.5
"""Letters in which a misspelt option name may differ from a known one."""


class Assigned(NamedTuple):
    """An option that is set, by a file's path or a variable's name; each line of a file a value.

    :ivar line: number of its last line in the file; 0 if it is not known.
    """

    place: str
    group: str
    name: str
    values: list[str]
    line: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Group and name, as oslo.config compares them."""
        return self.group, self.name.replace("-", "_")

    def __str__(self) -> str:
        return f"[{self.group}]{self.name} (in {self.place})"


def assigned_values(conf: cfg.ConfigOpts) -> list[Assigned]:
    """Return every option that files or the environment set."""
    folders = [pathlib.Path(folder) for folder in conf.config_dirs]
    files = [*conf.config_file, *(path for folder in folders for path in folder.glob("*.conf"))]
    found = [one for path in map(str, files) for one in values_of_file(path)]
    for variable, value in os.environ.items():
        named = _VARIABLE.fullmatch(variable)
        if named:
            group, name = _normal_group(named["group"]), named["name"].lower()
            found.append(Assigned(variable, group, name, [value]))
    return found


def _take_variables() -> None:
    """Set our names of options in the environment, as oslo.config reads no others there."""
    for variable, value in tuple(os.environ.items()):
        named = _VARIABLE.fullmatch(variable)
        ours = named and option_named((_normal_group(named["group"]), named["name"].lower()))
        if ours:
            os.environ.setdefault(_variable_of(*ours), value)


def _variable_of(group: str, opt: cfg.Opt) -> str:
    return f"OS_{group}__{opt.dest}".upper()


def values_of_file(path: str) -> list[Assigned]:
    """Return every option that a file sets. Raises cfg.ParseError, OSError, UnicodeDecodeError."""
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(path, sections).parse()
    return [
        Assigned(path, _normal_group(group), name, given)
        for group, names in sections.items()
        for name, given in names.items()
    ]


def _normal_group(group: str) -> str:
    return group if group == "DEFAULT" else group.lower()


# -- options of Ironic -----------------------------------------------------------------------


class Judgement(NamedTuple):
    """The verdict on an option that is set.

    :ivar text: its name here, the reason, or the advice; empty if there is nothing to say.
    :ivar loss: whether the operator loses something.
    """

    option: Assigned
    verdict: OptionVerdict
    text: str
    loss: bool = False


def judge(conf: cfg.ConfigOpts, one: Assigned) -> Judgement:
    """Return what becomes of an option; its value is not checked if it is one of ours."""
    row, ours = options.row_of(*one.key), option_named(one.key)
    if one.key[1] in _known_names(conf, one.group) or one.group in options.LIBRARIES:
        if ours is None or (ours[0], ours[1].dest) == one.key:
            return Judgement(one, OptionVerdict.KEPT, "")
        return Judgement(one, OptionVerdict.RENAMED, f"[{ours[0]}]{ours[1].dest}")
    if row is not None:
        found = [row.judge(value) for value in one.values]
        verdict, loss = next((each for each in found if each[1]), found[-1])
        text = "" if verdict is OptionVerdict.FIXED else row.note
        return Judgement(one, verdict, text, loss)
    fault = _name_fault(conf, one)
    if fault is not None:
        return Judgement(one, OptionVerdict.REFUSED, fault, True)
    return Judgement(one, OptionVerdict.IGNORED, "neither Ironic 39 nor this version knows it")


def ironic_fault(judged: Iterable[Judgement]) -> str | None:
    """Return all options of Ironic whose loss would be a danger, each with its advice."""
    found = [
        f"{one.option}: {one.text}"
        for one in judged
        if one.verdict is OptionVerdict.REFUSED and options.row_of(*one.option.key)
    ]
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
    found = ((one, _reference_fault(conf, one)) for one in assigned)
    return next((f"[{o.group}]{o.name}: {text} (in {o.place})" for o, text in found if text), None)


def _reference_fault(conf: cfg.ConfigOpts, one: Assigned) -> str | None:
    if one.key[1] not in _known_names(conf, one.group):
        return None
    used = (ref for value in one.values for ref in _REFERENCE.finditer(value))
    faults = (_fault_of(conf, one.group, ref["braced"] or ref["named"]) for ref in used)
    return next((fault for fault in faults if fault), None)


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
    return NO_SUCH_REFERENCE


# -- names -----------------------------------------------------------------------------------


def name_fault(conf: cfg.ConfigOpts, assigned: Sequence[Assigned]) -> str | None:
    """Return the first misspelt group or option of ours, with the right name."""
    found = ((one, _name_fault(conf, one)) for one in assigned)
    return next((f"[{o.group}]{o.name}: {text} (in {o.place})" for o, text in found if text), None)


def _name_fault(conf: cfg.ConfigOpts, one: Assigned) -> str | None:
    known = _known_names(conf, one.group)
    if not known:
        return None if options.row_of(*one.key) else _group_fault(conf, one)
    if one.key[1] in known:
        return None
    close = None if options.row_of(*one.key) else _similar(one.name, known)
    return f"no such option; did you mean {close}?" if close else None


def _group_fault(conf: cfg.ConfigOpts, one: Assigned) -> str | None:
    """Return the fault of a group with almost the name of one of ours that has the option.

    Groups of other projects may be in the file; they do not have both.
    """
    ours = {known.lower(): known for known in options.GROUPS}
    close = ours.get(_similar(one.group.lower(), ours) or "")
    if close and one.group.lower() != close and one.key[1] in _known_names(conf, close):
        return f"no such group; did you mean [{close}]?"
    return None


@functools.cache
def _options_by_name() -> Mapping[tuple[str, str], tuple[str, cfg.Opt]]:
    every = [(group, opt) for group, opts in options.GROUPS.items() for opt in opts]
    others = {
        (old.group or group, old.name or opt.dest): (group, opt)
        for group, opt in every
        for old in opt.deprecated_opts
    }
    return others | {(group, opt.dest): (group, opt) for group, opt in every}


def option_named(key: tuple[str, str]) -> tuple[str, cfg.Opt] | None:
    """Return an option of ours and its group, by group and any of its names."""
    return _options_by_name().get(key)


def _similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name of which ``name`` is a misspelling."""
    alike = max(0.6, 1 - _TYPO / len(name))
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=alike)), None)


def _known_names(conf: cfg.ConfigOpts, group: str) -> set[str]:
    """Return all names ``group`` may hold, other ones too; empty for a foreign group."""
    names = {name for of, name in _options_by_name() if of == group}
    if group == "DEFAULT":
        names |= {opt.name for opt in options.LIBRARY} | options.LIBRARY_DEFAULTS | set(conf)
    return {name.replace("-", "_") for name in names}


# -- options without effect ------------------------------------------------------------------


def deprecated(assigned: Iterable[Assigned]) -> list[str]:
    """Return a line for each deprecated name of an option that is set."""
    rows = (deprecations.find("[{}]{}".format(*one.key)) for one in assigned)
    return sorted({str(row) for row in rows if row})


def doubts(conf: cfg.ConfigOpts, judged: Sequence[Judgement]) -> Iterator[str]:
    """Yield lines on what is set and has no effect: one for all options of Ironic."""
    ignored = [one for one in judged if one.verdict is OptionVerdict.IGNORED]
    of_ironic = [one for one in ignored if options.row_of(*one.option.key)]
    for one in ignored:
        if one not in of_ironic and _known_names(conf, one.option.group):
            yield f"The configuration sets {one.option}, which this version does not know."
    if of_ironic:
        lost = sum(one.loss for one in of_ironic)
        losses = f" ({lost} with a loss)" if lost else ""
        count = len(of_ironic)
        options_have = "option of Ironic has" if count == 1 else "options of Ironic have"
        yield (
            f"{count} {options_have} no effect here{losses}: ironic-lite-status "
            "check-ironic-conf FILE lists them."
        )


# -- files that no program has read ----------------------------------------------------------

LARGEST_FILE = 1024 * 1024  # bytes
_FAULT = re.compile(r"\[(\w+)\](\w+): (.+)", re.DOTALL)
_SECTION = re.compile(r"\[(?P<group>[^]]+)\]\s*(?:[#;].*)?")
_SETTING = re.compile(r"(?P<name>[^\s=:#;\[][^=:]*?)\s*[=:]")


def judge_files(files: Sequence[pathlib.Path]) -> tuple[cfg.ConfigOpts, list[Judgement]]:
    """Return what becomes of each option of files, which are read together, and the options.

    Nothing is contacted or made, and the environment is left out.

    :param files: of which later ones come first, as with --config-file.
    :raises ConfigError: as `read_text`, or a file has no form of a configuration.
    """
    texts = {path: read_text(path) for path in files}
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    register(conf)
    alone = {"use_env": False, "default_config_files": [], "default_config_dirs": []}
    _load_files(conf, PROJECT, [f"--config-file={path}" for path in files], **alone)
    assigned = [
        one._replace(line=lines.get(one.key, 0))
        for path, text in texts.items()
        for lines in (_line_numbers(text),)
        for one in values_of_file(str(path))
    ]
    login = login_fault(conf, assigned)
    found = []
    for one in (judge(conf, one) for one in assigned):
        fault = None
        if one.verdict in (OptionVerdict.KEPT, OptionVerdict.RENAMED):
            fault = _reference_fault(conf, one.option) or _file_value_fault(conf, one.option)
        if login and one.option.group == "keystone_authtoken":
            login, fault = None, login
        refused = one._replace(verdict=OptionVerdict.REFUSED, text=fault or "", loss=True)
        found.append(refused if fault else one)
    # Without all values nothing is known of options together; certificates may be elsewhere.
    with contextlib.suppress(cfg.Error, ValueError, errors.OpenError):
        for text in _faults_together(conf):
            _add_fault(found, text)
    return conf, found


def _add_fault(judged: list[Judgement], text: str) -> None:
    """Refuse the option with which the text of a fault begins, which may be unset."""
    parts = _FAULT.fullmatch(text)
    assert parts is not None, text
    group, name, reason = parts.groups()
    for place, one in enumerate(judged):
        if one.option.key == (group, name) or one.text == f"[{group}]{name}":
            judged[place] = one._replace(verdict=OptionVerdict.REFUSED, text=reason, loss=True)
            return
    unset = Assigned("", group, name, [])
    judged.append(Judgement(unset, OptionVerdict.REFUSED, reason, True))


def read_text(path: pathlib.Path) -> str:
    """Return the text of a file of at most `LARGEST_FILE` bytes. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            if len(found := file.read(LARGEST_FILE + 1)) > LARGEST_FILE:
                raise ConfigError(reason=f"{path}: larger than {LARGEST_FILE} bytes")
        return found.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(reason=f"cannot read {path}: {reason}") from None


def _line_numbers(text: str) -> dict[tuple[str, str], int]:
    """Return the last line of each option in a file, from 1 on."""
    found, group = {}, "DEFAULT"
    for number, line in enumerate(text.splitlines(), 1):
        if section := _SECTION.match(line):
            group = _normal_group(section["group"])
        elif setting := _SETTING.match(line):
            found[group, setting["name"].replace("-", "_")] = number
    return found


def _file_value_fault(conf: cfg.ConfigOpts, one: Assigned) -> str | None:
    """Return why the value of an option of ours is refused, without the place."""
    named = option_named(one.key)
    if named is None:
        return None
    group, opt = named
    fault = _value_fault(conf if group == "DEFAULT" else conf[group], opt)
    return fault and fault.removesuffix(f" (in {one.place})")


PROJECT = "ironic-lite"
API = "ironic-lite-api"
"""Console script of the API, which is warned about an open address."""
_OWN_PAIR = ("ssl_cert_file", "ssl_key_file")
_IRONIC_PAIR = ("cert_file", "key_file")
_FILES_PAIR = ("http_ssl_cert_file", "http_ssl_key_file")
_LONGEST_SOCKET = 98
"""Bytes of a path: the name that a worker binds has 9 more, and the kernel takes 107."""
_FOR_ALL = 0o002
"""The right of all users to write to a file, such as to connect to a unix socket."""
_MOST_WORKERS = 4
"""Processes of the API with [api]workers = 0, as in Ironic."""
_SERVES_API = (API, "ironic-lite")

LOG = logging.getLogger(__name__)

_LOG_LEVELS = (
    "alembic=WARNING",
    "amqp=WARNING",
    "amqplib=WARNING",
    "keystonemiddleware=ERROR",  # which warns of each token that is not valid
    "oslo.messaging=INFO",
    "oslo_messaging=INFO",
    "oslo_messaging._drivers.pool=ERROR",  # which warns of each call of a crowd that waits a moment
    "sqlalchemy=WARNING",
    "stevedore=INFO",
    "sushy=INFO",
    "urllib3.connectionpool=WARNING",
)
_LOG_FORMAT = "%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s %(message)s"

_CONTEXT_FORMAT = _LOG_FORMAT.replace("%(name)s", "%(name)s [%(request_id)s %(user_name)s]")
"""Log format for lines written for a request, in any process."""

_NOT_VALID = re.compile(
    r"Value for option (?P<name>\S+) from LocationInfo\(.*detail='(?P<source>.*)'\) "
    r"is not valid: (?P<reason>.*)",
    re.DOTALL,
)
"""The form in which oslo.config reports a bad value."""

_PLAIN = (
    (r"invalid literal for int\(\) with base 10: (.*)", r"\1 is not a whole number"),
    (r"could not convert string to float: (.*)", r"\1 is not a number"),
    (r"\(.*URIReference.*", "not a URL of http or https"),
    (r"Value (.*) doesn't match regex (.*)", r"\1 is not of the form \2"),
)
"""Messages of oslo.config's types, and their plain wording."""

_EPILOG = "Options of the configuration file: see ironic-lite.conf.sample, at {path}"

_LOG_MODE = 0o640
"""Mode of a new log file, which names users and machines."""


class ConfigError(errors.Error):
    """The configuration cannot be used. A main prints it as one line and exits with status 2."""

    text = "{reason}"


def register(conf: cfg.ConfigOpts) -> None:
    """Register all options with ``conf``; repeated calls are harmless."""
    for group, opts in options.GROUPS.items():
        conf.register_opts(opts, group=None if group == "DEFAULT" else group)


CONF: Configuration = cfg.CONF
register(cfg.CONF)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) pairs for oslo-config-generator."""
    ours = [
        (group, [*opts, *(options.LIBRARY if group == "DEFAULT" else ())])
        for group, opts in options.GROUPS.items()
    ]
    return [*ours, ("oslo_messaging_notifications", list(options.LIBRARY_NOTIFICATIONS))]


@functools.cache  # importlib reads and parses the file of the distribution each time
def version() -> str:
    """Return the version of the installed package."""
    return importlib.metadata.version("ironic_lite")


def load(
    prog: str,
    argv: Sequence[str],
    *,
    description: str | None = None,
    cli_opts: Sequence[cfg.Opt] = (),
    conf: cfg.ConfigOpts = cfg.CONF,
    create: bool = True,
) -> cfg.ConfigOpts:
    """Read command line, environment and files, check every value, and set up logging.

    ``prog`` is the name of the console script, which also names its own file: without
    ``--config-file``, ironic-lite.conf and ``prog``.conf are read from ~/.ironic-lite, ~,
    /etc/ironic-lite and /etc. ``cli_opts`` are further options of this program, sub-commands too.
    With ``create`` False, state path and log files are checked only, and the log goes to standard
    error.

    Returns ``conf``. Raises ConfigError with one line that names file, option and reason, and
    errors.OpenError if the state path or the log cannot be opened.
    --help and --version end the process, as does a wrong command line, with status 2.
    """
    _MAKING.folders = create
    conf.clear()
    register(conf)
    log.register_options(conf)
    log.set_defaults(default_log_levels=list(_LOG_LEVELS))
    conf.set_default("logging_default_format_string", _LOG_FORMAT)
    conf.set_default("logging_context_format_string", _CONTEXT_FORMAT)
    conf.register_cli_opts(cli_opts)
    _take_variables()
    _read_sources(conf, prog, argv, description)
    found = assigned_values(conf)
    judged = [judge(conf, one) for one in found]
    _refuse(reference_fault(conf, found))
    _check_values(conf)
    own = (ironic_fault(judged), name_fault(conf, found), login_fault(conf, found))
    _refuse("; ".join(filter(None, (*own, *_faults_together(conf)))) or None)
    if not conf.database.connection:
        state_path(conf)
    if not create:
        log_lines.log_to_stderr(conf, prog)
    _start_logging(conf, prog)
    for text in (*doubts(conf, judged), *deprecated(found)):
        LOG.warning("%s", text)
    _warn_of_rotation(conf)
    warn(conf, prog)
    return conf


def files(prog: str) -> tuple[list[str], list[str]]:
    """Return the files and folders that a program reads unless its command line names others."""
    return cfg.find_config_files(PROJECT, prog), cfg.find_config_dirs(PROJECT, prog)


def _read_sources(
    conf: cfg.ConfigOpts, prog: str, argv: Sequence[str], description: str | None
) -> None:
    """Read command line, environment and files. Raises as `load`."""
    about = {"description": description, "epilog": _EPILOG.format(path=sample_path())}
    _load_files(conf, prog, argv, **about, project=PROJECT, version=version())


def _load_files(conf: cfg.ConfigOpts, prog: str, argv: Sequence[str], **how: Any) -> None:
    """Read what the command line names. Raises as `load`."""
    # Ironic's names of our options are as good as ours; `deprecated` reports those that are not.
    logging.getLogger("oslo_config.cfg").addFilter(_is_worth_a_line)
    try:
        conf(list(argv), prog=prog, **how)
    except cfg.ConfigFileParseError as error:
        raise ConfigError(reason=str(error).replace("\n", " ")) from None
    except (cfg.Error, OSError, UnicodeDecodeError) as error:
        where = _not_text(prog, argv) if isinstance(error, UnicodeDecodeError) else ""
        raise ConfigError(reason=f"cannot read the configuration: {where}{error}") from None
    except SystemExit as stop:
        # oslo.config has already printed its line about a file's bad value.
        raise SystemExit(2 if stop.code else 0) from None


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise ConfigError(reason=fault)


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Return whether a log line of oslo.config is about more than an accepted old name."""
    return "%(dep_option)s" not in str(record.msg)


def _not_text(prog: str, argv: Sequence[str]) -> str:
    """Return the path of the configuration file that is not text.

    The decoder's error does not name the file.
    """
    named = [word.partition("=")[2] or word for word in argv]
    found = (*files(prog), named)
    for place in map(pathlib.Path, itertools.chain(*found)):
        for path in (place, *sorted(place.glob("*.conf"))):
            try:
                path.read_text()  # in the encoding in which oslo.config has read it
            except UnicodeDecodeError:
                return f"{path}: "
            except OSError:
                continue
    return ""


def warn(conf: Configuration, prog: str) -> None:
    """Log settings that are allowed but perhaps not intended."""
    api, late = conf.api, _boot_retry_warning(conf)
    if prog != API and late is not None:
        LOG.warning("%s", late)
    if prog != API and conf.oci.permit_fallback_to_http_transport:
        LOG.warning(
            "Registries without TLS are used by plain http, which shows their logins to the "
            "network: [oci]permit_fallback_to_http_transport."
        )
    if api.unix_socket:
        open_to_all = api.auth_strategy == "noauth" and api.unix_socket_mode & _FOR_ALL
        if prog in _SERVES_API and open_to_all:
            LOG.warning(
                "Every user of this machine controls the machines: no login, and all users can "
                "connect to [api]unix_socket."
            )
        if prog in _SERVES_API and api.workers > 1:
            LOG.warning("One process serves [api]unix_socket; workers has no effect.")
        return
    if prog == API and api.auth_strategy == "noauth" and not is_loopback(api.host):
        LOG.warning("Every client that reaches %s controls the machines: no login.", api.host)
    secret = api.auth_strategy != "noauth" and not is_loopback(api.host)
    if prog in _SERVES_API and secret and api_certificate(conf) is None:
        LOG.warning(
            "Passwords and tokens reach %s in plain text: set [api]ssl_cert_file.", api.host
        )
    doubt = _address_warning(conf) if prog in _SERVES_API else None
    if doubt is not None:
        LOG.warning("%s", doubt)


def sample_path() -> pathlib.Path:
    """Return where this installation keeps ironic-lite.conf.sample."""
    return pathlib.Path(__file__).parents[1] / "etc" / PROJECT / "ironic-lite.conf.sample"


class _Making:
    """The right of this process to make missing folders; a check of a configuration has none."""

    folders = True


_MAKING = _Making()


def state_path(conf: Configuration = CONF) -> pathlib.Path:
    """Return [DEFAULT]state_path as a writable folder, made with mode 0700 if missing.

    A process that loads the configuration without ``create`` only checks that it could be made.

    :raises ConfigError: its name is not absolute.
    :raises errors.OpenError: it cannot be made, or is not writable.
    """
    path = pathlib.Path(conf.state_path)
    if not path.is_absolute():
        # The path must be absolute: a service started in another folder would not find its state.
        raise ConfigError(reason=f"[DEFAULT]state_path: {conf.state_path!r} does not begin with /")
    try:
        if _MAKING.folders:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = path if _MAKING.folders else _nearest(path)
    except OSError as error:
        raise errors.OpenError(
            reason=f"[DEFAULT]state_path: cannot make {path}: {error.strerror}; make it for the "
            "user of the service, or name another folder"
        ) from None
    if not os.access(place, os.W_OK | os.X_OK):
        reason = f"{place} is not writable; give it to the user of the service"
        raise errors.OpenError(reason=f"[DEFAULT]state_path: {reason}")
    return path


def _nearest(path: pathlib.Path) -> pathlib.Path:
    """Return the folder itself, or the one in which it would be made. Raises OSError."""
    while not path.exists():
        path = path.parent
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return path


def api_certificate(conf: Configuration) -> tuple[str, str] | None:
    """Return the files of certificate chain and key of the API; None without TLS.

    Ironic's names of them turn TLS on only with enable_ssl_api, as in Ironic.
    """
    api = conf.api
    if api.ssl_cert_file and api.ssl_key_file:  # both or none, `load` checks
        return api.ssl_cert_file, api.ssl_key_file
    if api.enable_ssl_api and api.cert_file and api.key_file:
        return api.cert_file, api.key_file
    return None


def api_workers(conf: Configuration) -> int:
    """Return the number of processes that serve the API; a unix socket has one listener."""
    if conf.api.unix_socket:
        return 1
    return conf.api.workers or min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


def priorities(lines: Iterable[Mapping[str, float]] | None) -> dict[str, float]:
    """Return a repeatable option as one ``{"interface.step": number}``; the last line wins."""
    return {step: priority for line in lines or () for step, priority in line.items()}


@functools.lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on ``host``."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


# -- checks ----------------------------------------------------------------------------------


def _check_values(conf: cfg.ConfigOpts) -> None:
    """Read every value once: oslo.config converts values only on reading."""
    for group, opts in options.GROUPS.items():
        values = conf if group == "DEFAULT" else conf[group]
        for opt in opts:
            _check_source(group, opt)
            if fault := _value_fault(values, opt):
                raise ConfigError(reason=f"[{group}]{opt.name}: {fault}")


def _value_fault(values: Group, opt: cfg.Opt) -> str | None:
    try:
        values[opt.dest]
    except (cfg.Error, ValueError) as error:
        return _explain_value(error)
    return None


def _check_source(group: str, opt: cfg.Opt) -> None:
    """Refuse a repeatable option in the environment: oslo.config reads its letters as values."""
    variable = _variable_of(group, opt)
    if opt.multi and variable in os.environ:
        raise ConfigError(
            reason=f"[{group}]{opt.name}: may be repeated, so set it in a file, not by {variable}"
        )


def _explain_value(error: Exception) -> str:
    """Return oslo.config's message about a value in plain words."""
    if isinstance(error, cfg.NoSuchOptError | cfg.TemplateSubstitutionError):
        return NO_SUCH_REFERENCE
    found = _NOT_VALID.fullmatch(str(error))
    if not found:
        return str(error)
    reason = found["reason"]
    for theirs, ours in _PLAIN:
        reason = re.sub(f"^{theirs}$", ours, reason, flags=re.DOTALL)
    return f"{reason} (in {found['source']})"


def _faults_together(conf: Configuration) -> Iterator[str]:
    """Yield the faults of options that depend on each other.

    :raises errors.OpenError: a certificate or key cannot be read.
    """
    checks = (_check_api, _check_tls, _check_conductor, _check_discovery, _check_image_servers)
    for check in checks:
        if fault := check(conf):
            yield fault


def _check_api(conf: Configuration) -> str | None:
    api = conf.api
    if api.unix_socket:
        return _socket_fault(conf)
    open_to_all = api.auth_strategy == "noauth" and not is_loopback(api.host)
    if open_to_all and not api.allow_unauthenticated_bind:
        return (
            "[api]host: with auth_strategy noauth the API listens on loopback only, not on "
            f"{api.host}; set [api]auth_strategy to http_basic or keystone, or, to let every "
            "client that reaches it control the machines, [api]allow_unauthenticated_bind = true"
        )
    return None


def _socket_fault(conf: Configuration) -> str | None:
    path = conf.api.unix_socket or ""
    if not path.startswith("/"):
        return f"[api]unix_socket: {path} does not begin with /"
    if len(os.fsencode(path)) > _LONGEST_SOCKET:
        return f"[api]unix_socket: {path} is longer than {_LONGEST_SOCKET} bytes"
    if conf.api.enable_ssl_api or conf.api.ssl_cert_file:
        return "[api]unix_socket: TLS ends at the proxy; remove enable_ssl_api and ssl_cert_file"
    return None


def _check_discovery(conf: Configuration) -> str | None:
    if conf.auto_discovery.enabled and not conf.auto_discovery.driver:
        return "[auto_discovery]enabled: set [auto_discovery]driver, the driver of the new nodes"
    return None


def _boot_retry_warning(conf: Configuration) -> str | None:
    """Return a warning about waits that end before a machine is restarted."""
    timeout, options = conf.pxe.boot_retry_timeout, conf.conductor
    names = (f"{verb}_callback_timeout" for verb in ("clean", "deploy", "rescue", "service"))
    early = [name for name in names if timeout and 0 < options[name] <= timeout]
    if not early:
        return None
    return (
        f"[pxe]boot_retry_timeout is {timeout}, so machines are not restarted in waits that end "
        f"before: [conductor]{', '.join(early)}."
    )


def _address_warning(conf: Configuration) -> str | None:
    """Return a warning about an address, as a proxy may stand before the API."""
    told = conf.service_catalog.endpoint_override
    proxied = conf.api.enable_proxy_headers_parsing
    if not told or proxied or not is_loopback(conf.api.host):
        return None
    if is_loopback(urllib.parse.urlsplit(told).hostname or ""):
        return None
    return (
        f"Ramdisks are told to find the API at {told} ([service_catalog]endpoint_override), but it "
        f"listens on {conf.api.host} only: unless a proxy passes requests on, set [api]host."
    )


def _check_tls(conf: Configuration) -> str | None:
    api = conf.api
    if api.enable_ssl_api is False and api.ssl_cert_file:
        return "[api]enable_ssl_api: false contradicts [api]ssl_cert_file; remove one of them"
    pairs = [("api", _OWN_PAIR), ("deploy", _FILES_PAIR)]
    if api.enable_ssl_api and not api.ssl_cert_file:
        if not api.cert_file and not api.key_file:
            return "[api]enable_ssl_api: no certificate; set cert_file and key_file"
        pairs.append(("api", _IRONIC_PAIR))
    faults = (_pair_fault(conf, group, pair) for group, pair in pairs)
    return next((fault for fault in faults if fault is not None), None)


def _pair_fault(conf: Configuration, group: str, names: tuple[str, str]) -> str | None:
    pair = {name: conf[group][name] for name in names}
    if not any(pair.values()):
        return None
    for name, path in pair.items():
        if not path:
            return f"[{group}]{name}: must be set too, TLS needs the certificate and its key"
        try:
            pathlib.Path(path).open("rb").close()
        except OSError as error:
            reason = f"[{group}]{name}: cannot read {path}: {error.strerror}"
            raise errors.OpenError(reason=reason) from None
    return None


def _check_conductor(conf: Configuration) -> str | None:
    conductor = conf.conductor
    if conductor.heartbeat_timeout < 2 * conductor.heartbeat_interval:
        return (
            "[conductor]heartbeat_timeout: must be at least twice heartbeat_interval "
            f"({conductor.heartbeat_interval} s), or a living conductor counts as dead"
        )
    if conductor.periodic_max_workers >= conductor.workers_pool_size:
        return (
            "[conductor]workers_pool_size: must be larger than periodic_max_workers "
            f"({conductor.periodic_max_workers})"
        )
    return None


def _check_image_servers(conf: Configuration) -> str | None:
    deploy = conf.deploy
    if deploy.image_server_auth_strategy == "noauth":
        return None
    for name in ("image_server_user", "image_server_password"):
        if not deploy[name]:
            return f"[deploy]{name}: must be set, image_server_auth_strategy = http_basic sends it"
    if not deploy.image_server_auth_hosts and not deploy.image_server_auth_permit_unknown_hosts:
        return (
            "[deploy]image_server_auth_hosts: must name the servers that get the login of "
            "image_server_auth_strategy = http_basic; image_server_auth_permit_unknown_hosts = "
            "true sends it to every server that a tenant names, as Ironic does"
        )
    return None


def _start_logging(conf: cfg.ConfigOpts, prog: str) -> None:
    """Log to standard error unless the configuration names another place.

    oslo.log would use standard output, which is for the output of commands.
    """
    elsewhere = conf.log_file or conf.log_dir or conf.use_journal
    conf.set_default("use_stderr", not elsewhere)
    created = [path for path in log_lines.log_files(conf, prog) if not path.exists()]
    try:
        log.setup(conf, prog, version(), fix_eventlet=False)
        for handler in logging.getLogger().handlers:
            handler.addFilter(context.LogFilter())
            handler.addFilter(log_lines.Seldom(*log_lines.BROKER_LIBRARIES, least=logging.INFO))
        log_lines.guard(logging.getLogger())
        if log_lines.is_journal():
            log_lines.add_priorities(logging.getLogger())
        for path in filter(pathlib.Path.exists, created):
            path.chmod(_LOG_MODE)
    except OSError as error:
        raise errors.OpenError(reason=f"[DEFAULT]log_file, log_dir: cannot log: {error}") from None
    except RuntimeError as error:
        if not conf.use_journal:
            raise
        raise ConfigError(
            reason=f"[DEFAULT]use_journal: {error}; remove it, because under systemd standard "
            "error goes to the journal, with priorities; or install the package systemd-python"
        ) from None
    except (cfg.Error, TypeError, ValueError, log.LogConfigError) as error:
        found = _NOT_VALID.fullmatch(str(error))
        what = f"[DEFAULT]{found['name']}" if found else "cannot set up logging"
        raise ConfigError(reason=f"{what}: {_explain_value(error)}") from None


def _warn_of_rotation(conf: cfg.ConfigOpts) -> None:
    if (conf.log_file or conf.log_dir) and conf.log_rotation_type != "none":
        LOG.warning(
            "[DEFAULT]log_rotation_type = %s loses lines, because each process rotates the file: "
            "remove it, and use logrotate, which has an example in etc/ironic-lite/examples.",
            conf.log_rotation_type,
        )
