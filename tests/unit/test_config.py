"""Options load from files, old names are read, and bad configuration is one clear line."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import config, options
from ironic_lite.domain import versions

Load = Callable[[str], cfg.ConfigOpts]


@pytest.fixture
def load(tmp_path: pathlib.Path) -> Load:
    """Load one file's text into an empty set of options."""

    def _load(text: str) -> cfg.ConfigOpts:
        path = tmp_path / "test.conf"
        path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n{text}")
        argv = ["--config-file", str(path)]
        return config.load("ironic-lite-api", argv, conf=cfg.ConfigOpts())

    return _load


def refusal(load: Load, text: str) -> str:
    with pytest.raises(config.ConfigError) as caught:
        load(text)
    return str(caught.value)


def test_defaults_are_those_of_one_machine_for_one_person(load: Load) -> None:
    conf = load("")
    assert (conf.api.host, conf.api.port, conf.api.workers) == ("127.0.0.1", 6385, 1)
    assert conf.api.default_version == "latest"
    assert conf.conductor.automated_clean_enable is True
    assert conf.enabled_hardware_types == ["ipmi", "redfish", "fake-hardware"]


def test_the_state_path_is_made_for_its_owner_alone(load: Load, tmp_path: pathlib.Path) -> None:
    conf = load("")
    assert config.state_path(conf) == tmp_path / "state"
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("path", ["", "state", "./state", "~/state"])
def test_the_state_path_does_not_depend_on_where_one_stands(
    load: Load, path: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refusal(load, f"state_path = {path}\n")
    assert said == f"[DEFAULT]state_path: {path!r} does not begin with /"
    assert {one.name for one in tmp_path.iterdir()} == {"test.conf"}


@pytest.mark.parametrize("name", ["automated_clean_enable", "automated_clean", "clean_nodes"])
def test_cleaning_is_switched_by_its_name_and_both_old_names(load: Load, name: str) -> None:
    conf = load(f"[conductor]\n{name} = false")
    assert conf.conductor.automated_clean_enable is False


def test_step_priorities_add_up_over_lines_and_the_last_wins(load: Load) -> None:
    conf = load(
        "[conductor]\n"
        "clean_step_priority_override = deploy.erase_devices:0\n"
        "clean_step_priority_override = raid.create_configuration:1.5, power.cycle:7\n"
        "clean_step_priority_override = power.cycle:8\n"
    )
    assert config.priorities(conf.conductor.clean_step_priority_override) == {
        "deploy.erase_devices": 0,
        "raid.create_configuration": 1.5,
        "power.cycle": 8,
    }


def test_no_override_is_an_empty_set_of_priorities(load: Load) -> None:
    conf = load("")
    assert config.priorities(conf.conductor.clean_step_priority_override) == {}
    assert config.priorities(conf.conductor.verify_step_priority_override) == {}


def test_deadlines_of_steps_are_whole_seconds(load: Load) -> None:
    conf = load(
        "[conductor]\nstep_deadline = deploy.erase_devices:43200, bios.factory_reset:1\n"
        "step_deadline = deploy.erase_devices:7200\n"
    )
    found = config.priorities(conf.conductor.step_deadline)
    assert found == {"deploy.erase_devices": 7200, "bios.factory_reset": 1}
    assert config.priorities(load("").conductor.step_deadline) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[api]\nport = abc", "[api]port: 'abc' is not a whole number"),
        ("[api]\nport = 70000", "[api]port: Should be less than or equal to 65535"),
        ("[api]\nworkers = -1", "[api]workers: Should be greater than or equal to 0"),
        ("[api]\nauth_strategy = none", "[api]auth_strategy: Valid values are [noauth,"),
        ("[api]\npublic_endpoint = here", "[api]public_endpoint: not a URL of http or https"),
        ("[api]\ndefault_version = 1.116", "[api]default_version: '1.116' is not of the form"),
        ("[api]\nssl_cert_file = /dev/null", "[api]ssl_key_file: must be set too"),
        ("[fake]\nstep_seconds = x", "[fake]step_seconds: 'x' is not a number"),
        (
            "[database]\nconnection = x://u:$secret@h",
            "[database]connection: a $name in it is no",
        ),
        (
            "[conductor]\nclean_step_priority_override = erase:5",
            "'erase:5' is not of the form interface.step:priority",
        ),
        (
            "[conductor]\nclean_step_priority_override = deploy.erase_devices:-1",
            "must be a number of 0 or more",
        ),
        (
            "[conductor]\nverify_step_priority_override = deploy.erase_devices:1.5",
            "must be a number of 0 or more",
        ),
        (
            "[conductor]\nstep_deadline = erase_devices:60",
            "step_deadline: 'erase_devices:60' is not of the form interface.step:seconds",
        ),
        (
            "[conductor]\nstep_deadline = deploy.erase_devices:60, raid.create_configuration:0",
            "the seconds in 'raid.create_configuration:0' must be a number of 1 or more",
        ),
        (
            "[conductor]\nstep_deadline = deploy.erase_devices:12h",
            "the seconds in 'deploy.erase_devices:12h' must be a number of 1 or more",
        ),
        ("[conductor]\nheartbeat_timeout = 15", "at least twice heartbeat_interval (10 s)"),
        ("[conductor]\nworkers_pool_size = 8", "larger than periodic_max_workers (8)"),
        (
            "[deploy]\nimage_server_auth_strategy = http_basic\nimage_server_user = u",
            "[deploy]image_server_password: must be set",
        ),
        (
            "[deploy]\nimage_server_auth_strategy = http_basic\nimage_server_user = u\n"
            "image_server_password = hidden-word",
            "[deploy]image_server_auth_hosts: must name the servers that get the login",
        ),
        ("[api]\nwokers = 2", "[api]wokers: no such option; did you mean workers?"),
        ("[DEFAULT]\nlog_fil = x", "[DEFAULT]log_fil: no such option; did you mean log_file?"),
        ("[conducter]\nhost = x\nworkers_pool_size = 9", "did you mean [conductor]? (in "),
        (
            "[default]\nstate_path = /x",
            "[default]state_path: no such group; did you mean [DEFAULT]?",
        ),
        ("nonsense", "No ':' or '=' found in assignment: 'nonsense'"),
        ("[api", "Invalid section"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_it(load: Load, text: str, said: str) -> None:
    line = refusal(load, text)
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[api]\nssl_cert_file = /dev/null\nssl_key_file = /no/key",
            "[api]ssl_key_file: cannot read /no/key: No such file or directory",
        ),
        ("[DEFAULT]\nlog_file = /no/such/log", "[DEFAULT]log_file, log_dir: cannot log: "),
        ("[DEFAULT]\nstate_path = /dev/null/x", "[DEFAULT]state_path: cannot make /dev/null/x"),
    ],
)
def test_file_that_cannot_be_opened_is_a_one_line_error(load: Load, text: str, said: str) -> None:
    with pytest.raises(errors.OpenError) as caught:
        load(text)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_a_wrong_value_of_a_command_line_option_ends_with_status_2_as_well(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        load("[DEFAULT]\ndebug = maybe")
    assert stop.value.code == 2
    assert capsys.readouterr().err == "argument --debug: Invalid Boolean value: maybe\n"


def test_a_secret_is_not_repeated_when_its_value_is_wrong(load: Load) -> None:
    assert "hunter2" not in refusal(load, "[database]\nconnection = x://u:$hunter2@h/d")


@pytest.mark.parametrize(
    "text",
    [
        "[api]\nfrobnicate = 1",
        "[elsewhere]\nworker = 1",
        "[conductor]\nsync_local_state_interval = 180",
    ],
)
def test_a_name_that_is_no_misspelling_is_only_warned_of(load: Load, text: str) -> None:
    assert load(text).api.workers == 1


def test_log_lines_go_to_standard_error_or_to_the_file_that_is_named(
    tmp_path: pathlib.Path,
) -> None:
    code = (
        "import logging, sys\n"
        "from ironic_lite.core import config\n"
        "config.load('ironic-lite', sys.argv[1:])\n"
        "logging.getLogger('ironic_lite').warning('hear me')"
    )
    log, none = tmp_path / "log", tmp_path / "none.conf"
    none.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")

    def said(*argv: str) -> tuple[bool, bool, bool]:
        command = [sys.executable, "-c", code, "--config-file", str(none), *argv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return (
            "hear me" in done.stdout,
            "hear me" in done.stderr,
            log.exists() and "hear me" in log.read_text(),
        )

    assert said() == (False, True, False)
    assert said("--log-file", str(log)) == (False, False, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "metal.example.org"])
def test_without_login_only_loopback_is_listened_on(load: Load, host: str) -> None:
    said = refusal(load, f"[api]\nhost = {host}")
    assert said.index("auth_strategy to http_basic") < said.index("allow_unauthenticated_bind")
    conf = load(f"[api]\nhost = {host}\nallow_unauthenticated_bind = true")
    assert conf.api.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_no_override(load: Load, host: str) -> None:
    assert load(f"[api]\nhost = {host}").api.host == host


@pytest.mark.parametrize("what", ["missing", "folder", "binary"])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: pathlib.Path, what: str) -> None:
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    if what == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(config.ConfigError, match="cannot read the configuration") as caught:
        config.load("ironic-lite", ["--config-file", str(path)], conf=cfg.ConfigOpts())
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_of_a_folder_that_cannot_be_read_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.conf").write_text("[api]\nport = 1234\n")
    (tmp_path / "b.conf").write_bytes(b"[api]\n# f\xfcr Ironic\n")
    with pytest.raises(config.ConfigError, match=f"{tmp_path}/b.conf: .*can't decode"):
        config.load("ironic-lite", [f"--config-dir={tmp_path}"], conf=cfg.ConfigOpts())


def test_a_folder_of_files_is_read_and_checked(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.conf").write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[api]\nport = 1234\n")
    conf = config.load("ironic-lite", ["--config-dir", str(tmp_path)], conf=cfg.ConfigOpts())
    assert conf.api.port == 1234
    (tmp_path / "b.conf").write_text("[api]\nprot = 1\n")
    with pytest.raises(config.ConfigError, match="did you mean port"):
        config.load("ironic-lite", ["--config-dir", str(tmp_path)], conf=cfg.ConfigOpts())


def test_the_environment_sets_options_too(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_API__PORT", "4321")
    assert load("").api.port == 4321
    monkeypatch.setenv("OS_API__PORT", "many")
    assert refusal(load, "") == "[api]port: 'many' is not a whole number (in OS_API__PORT)"


def test_repeatable_option_in_the_environment_is_refused(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_CONDUCTOR__CLEAN_STEP_PRIORITY_OVERRIDE", "deploy.erase_devices:5")
    assert refusal(load, "") == (
        "[conductor]clean_step_priority_override: may be repeated, so set it in a file, not by "
        "OS_CONDUCTOR__CLEAN_STEP_PRIORITY_OVERRIDE"
    )


@pytest.mark.parametrize("text", ["[conducter]\nflavour = 9", "[API]\nport = 1234", "[ap]\nx = 1"])
def test_group_of_another_project_is_ignored(load: Load, text: str) -> None:
    load(text)


def test_a_misspelt_name_in_the_environment_is_refused_as_in_a_file(
    load: Load, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "OS_CLOUD",
        "OS_DEFAULT__DEBUG",
    ):
        monkeypatch.setenv(name, "true")
    load("")
    assert "does not know" not in capsys.readouterr().err
    monkeypatch.setenv("OS_API__FROBNICATE", "1")
    load("")
    assert "[api]frobnicate (in OS_API__FROBNICATE)" in capsys.readouterr().err
    monkeypatch.setenv("OS_API__PROT", "4321")
    said = "[api]prot: no such option; did you mean port? (in OS_API__PROT)"
    assert refusal(load, "") == said


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (versions.LATEST, True),
        (versions.MIN_VERSION, True),
        (versions.MAX_VERSION, True),
        (f"{versions.MAJOR}.{versions.LAST + 1}", False),
        (f"{versions.MAJOR}.{versions.FIRST - 1}", False),
        (f"{versions.MAJOR + 1}.{versions.FIRST}", False),
    ],
)
def test_the_default_version_is_one_the_api_speaks(load: Load, text: str, good: bool) -> None:
    setting = f"[api]\ndefault_version = {text}"
    if good:
        assert load(setting).api.default_version == text
    else:
        assert "[api]default_version" in refusal(load, setting)


@pytest.mark.parametrize(
    ("flag", "said"), [("--version", config.version()), ("--help", "--config")]
)
def test_version_and_help_answer_and_end(
    capsys: pytest.CaptureFixture[str], flag: str, said: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        config.load("ironic-lite", [flag], description="All of it.", conf=cfg.ConfigOpts())
    assert not stop.value.code
    assert said in capsys.readouterr().out


def test_every_option_has_a_help_text_that_ends_like_a_sentence() -> None:
    for group, opts in config.list_opts():
        for opt in opts:
            assert opt.help, f"[{group}]{opt.name}"
            assert opt.help.endswith((".", ")")), f"[{group}]{opt.name}"


def test_no_option_is_documented_twice() -> None:
    for group, opts in config.list_opts():
        names = [opt.name for opt in opts]
        assert len(names) == len(set(names)), group


def test_each_interface_kind_has_its_two_options(load: Load) -> None:
    conf = load("")
    for kind in options.KINDS:
        assert conf[f"enabled_{kind}_interfaces"], kind
        assert conf[f"default_{kind}_interface"] is None


def test_the_sample_file_is_fresh(tmp_path: pathlib.Path) -> None:
    root = pathlib.Path(__file__).parents[2]
    fresh = tmp_path / "fresh.conf"
    generator = pathlib.Path(sys.executable).with_name("oslo-config-generator")
    subprocess.run(
        [generator, "--config-file", "etc/config-generator.conf", "--output-file", fresh],
        cwd=root,
        check=True,
        timeout=60,
    )
    assert fresh.read_text() == config.sample_path().read_text(), "run: make sample"


def test_the_types_of_options_are_those_of_their_values() -> None:
    """As far as defaults go: a list of texts is a list."""
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    hints = typing.get_type_hints(options.Configuration)
    for name, hint in ((name, hints[name]) for name in hints if name in conf):
        values: list[tuple[Any, Any]] = [(conf[name], hint)]
        if options.Group in getattr(hint, "__bases__", ()):
            values = [(conf[name][key], typing.get_type_hints(hint)[key]) for key in conf[name]]
        for value, one in values:
            allowed = typing.get_args(one) if isinstance(one, types.UnionType) else (one,)
            kinds = tuple(typing.get_origin(each) or each for each in allowed)
            assert isinstance(value, (*kinds, int) if float in kinds else kinds), (name, value, one)


def test_the_sample_file_itself_loads(tmp_path: pathlib.Path) -> None:
    argv = ["--config-file", str(config.sample_path())]
    extra = tmp_path / "extra.conf"
    extra.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    argv += ["--config-file", str(extra)]
    assert config.load("ironic-lite", argv, conf=cfg.ConfigOpts()).api.port == 6385


def test_loading_options_brings_no_rpc_library_and_no_eventlet() -> None:
    code = (
        "import sys, ironic_lite.core.config\n"
        "heavy = {'eventlet', 'oslo_messaging', 'oslo_service', 'sqlalchemy', 'pecan'}\n"
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("told", "more", "doubted"),
    [
        ("http://192.0.2.1:6385", "", True),
        ("http://metal.example.org", "", True),
        ("http://192.0.2.1:6385", "enable_proxy_headers_parsing = true", False),
        ("http://192.0.2.1:6385", "host = 0.0.0.0\nallow_unauthenticated_bind = true", False),
        ("http://[::1]:6385", "", False),
    ],
)
def test_an_api_that_no_ramdisk_would_reach_is_told_of(
    load: Load, capsys: pytest.CaptureFixture[str], told: str, more: str, *, doubted: bool
) -> None:
    load(f"[service_catalog]\nendpoint_override = {told}\n[api]\n{more}")
    found = [one for one in capsys.readouterr().err.splitlines() if "endpoint_override" in one]
    assert len(found) == int(doubted)
    assert all(told in one and "127.0.0.1" in one for one in found)


def test_the_old_name_of_the_api_s_address_is_read(load: Load) -> None:
    assert load("[api]\nhost_ip = ::1").api.host == "::1"


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ("host = 192.0.2.1\nauth_strategy = http_basic\n", True),
        (
            "host = 192.0.2.1\nauth_strategy = http_basic\nssl_cert_file = x\nssl_key_file = y\n",
            False,
        ),
        ("auth_strategy = http_basic\n", False),
        ("", False),
    ],
    ids=["plain", "tls", "loopback", "noauth"],
)
def test_passwords_in_plain_text_are_warned_of(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, options: str, warned: bool
) -> None:
    file = tmp_path / "test.conf"
    file.write_text(f"[api]\n{options}")
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf(["--config-file", str(file)], project=config.PROJECT)
    said: list[str] = []
    monkeypatch.setattr(config.LOG, "warning", lambda text, *facts: said.append(text % facts))
    config.warn(conf, config.API)
    assert any("plain text" in text for text in said) is warned


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("[pxe]\nboot_retry_timeout = 1200", ""),
        ("", ""),
        (
            "[pxe]\nboot_retry_timeout = 1800\n[conductor]\ndeploy_callback_timeout = 0",
            "clean_callback_timeout, rescue_callback_timeout, service_callback_timeout.",
        ),
    ],
)
def test_boot_retry_after_the_end_of_waits_is_one_warning(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, text: str, warned: str
) -> None:
    file = tmp_path / "test.conf"
    file.write_text(text)
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf(["--config-file", str(file)], project=config.PROJECT)
    said: list[str] = []
    monkeypatch.setattr(config.LOG, "warning", lambda text, *facts: said.append(text % facts))
    config.warn(conf, "ironic-lite-conductor")
    about = [one for one in said if "boot_retry_timeout" in one]
    assert len(about) == bool(warned)
    assert all(one.endswith(f"[conductor]{warned}") for one in about)


# -- a configuration file of Ironic -------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("[api]\nenable_ssl_api = true\n[ssl]\ncert_file = {c}\nkey_file = {k}\n", ("c", "k")),
        ("[api]\nenable_ssl_api = true\ncert_file = {c}\nkey_file = {k}\n", ("c", "k")),
        (
            "[api]\nenable_ssl_api = yes\ncert_file = {c}\nkey_file = {k}\n"
            "[ssl]\ncert_file = {o}\nkey_file = {o}\n",
            ("c", "k"),
        ),
        (
            "[api]\nenable_ssl_api = true\nssl_cert_file = {c}\nssl_key_file = {k}\n"
            "cert_file = {o}\nkey_file = {o}\n",
            ("c", "k"),
        ),
        ("[api]\nssl_cert_file = {c}\nssl_key_file = {k}\n", ("c", "k")),
        ("[ssl]\ncert_file = {c}\nkey_file = {k}\n", None),
        ("[api]\nenable_ssl_api = false\n[ssl]\ncert_file = {c}\nkey_file = {k}\n", None),
    ],
)
def test_tls_of_an_ironic_file_is_tls_here(
    load: Load, tmp_path: pathlib.Path, text: str, pair: tuple[str, str] | None
) -> None:
    files = {name: str(tmp_path / name) for name in "cko"}
    for path in files.values():
        pathlib.Path(path).touch()
    found = config.api_certificate(load(text.format(**files)))
    assert found == (pair and tuple(files[name] for name in pair))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[api]\nenable_ssl_api = true", "no certificate; set cert_file and key_file"),
        ("[api]\nenable_ssl_api = true\n[ssl]\ncert_file = /dev/null", "[api]key_file: must be"),
        (
            "[api]\nenable_ssl_api = 0\nssl_cert_file = /dev/null\nssl_key_file = /dev/null",
            "enable_ssl_api: false contradicts",
        ),
        ("[auto_discovery]\nenabled = true", "[auto_discovery]enabled: set [auto_discovery]driver"),
        ("[audit]\nenabled = True", "[audit]enabled (in "),
        ("[api]\nmiddleware = one,two", "put a proxy in front"),
        ("[api]\nserver_tls_ciphers = HIGH", "[api]server_tls_ciphers (in "),
        ("[ssl]\nca_file = /etc/ca.pem", "[ssl]ca_file (in "),
        ("[SSL]\nca_file = /etc/ca.pem", "[ssl]ca_file (in "),
        ("[DEFAULT]\nrpc_transport = json-rpc", "direct://"),
        ("[agent]\nmanage_agent_boot = false", "[agent]manage_agent_boot (in "),
        ("[conductor]\nenable_trait_based_networking = true", "connects no ports"),
        ("[inventory]\ndata_backend = swift", "[inventory]data_backend (in "),
        ("[keystone_authtoken]\nwww_authenticate_uri = http://k", "auth_strategy = keystone"),
    ],
)
def test_loss_of_security_of_an_ironic_file_stops_the_start(
    load: Load, text: str, said: str
) -> None:
    line = refusal(load, text)
    assert said in line
    assert "\n" not in line


def test_all_refused_options_of_ironic_are_in_one_line(load: Load) -> None:
    line = refusal(
        load,
        "[audit]\nenabled = true\n[api]\nmiddleware = x\nenable_ssl_api = true\n"
        "[redfish]\nuse_swift = 1\n[auto_discovery]\nenabled = true\n",
    )
    names = ("[audit]enabled", "[api]middleware", "[redfish]use_swift")
    own = ("[api]enable_ssl_api: no certificate", "[auto_discovery]enabled: set")
    assert all(name in line for name in (*names, *own))


@pytest.mark.parametrize(
    "text",
    [
        "[audit]\nenabled = false",
        "[agent]\nmanage_agent_boot = True",
        "[DEFAULT]\nrpc_transport = none",
        "[redfish]\nuse_swift = false",
        "[conductor]\nenable_trait_based_networking = false",
        "[api]\nauth_strategy = noauth\n[keystone_authtoken]\nusername = ironic",
    ],
)
def test_options_of_ironic_that_change_nothing_are_taken_in_silence(
    load: Load, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    load(text)
    assert "WARNING" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "where", "value"),
    [
        ("[api]\napi_workers = 3", "api.workers", 3),
        ("[conductor]\nsend_sensor_data = true", "sensor_data.send_sensor_data", True),
        ("[conductor]\nsend_sensor_data_interval = 9", "sensor_data.interval", 9),
        (
            "[conductor]\nsend_sensor_data_for_undeployed_nodes = true",
            "sensor_data.enable_for_undeployed_nodes",
            True,
        ),
        ("[conductor]\ninspect_timeout = 7", "conductor.inspect_wait_timeout", 7),
        ("[pxe]\nimage_cache_size = 8", "conductor.image_cache_size", 8),
        (
            "[oslo_middleware]\nenable_proxy_headers_parsing = true",
            "api.enable_proxy_headers_parsing",
            True,
        ),
    ],
)
def test_renamed_option_of_ironic_takes_effect_without_a_word(
    load: Load, capsys: pytest.CaptureFixture[str], text: str, where: str, value: object
) -> None:
    group, _, name = where.partition(".")
    assert load(text)[group][name] == value
    assert "eprecated" not in capsys.readouterr().err


def test_zero_workers_are_as_many_as_processors_but_four_at_most(load: Load) -> None:
    assert 1 <= config.api_workers(load("[api]\napi_workers = 0")) <= 4


@pytest.mark.parametrize(
    ("text", "group", "name", "value"),
    [
        (
            "[inspector]\nhooks = $default_hooks,parse-lldp",
            "inspector",
            "hooks",
            ["ramdisk-error", "validate-interfaces", "ports", "architecture", "parse-lldp"],
        ),
        (
            "[inspector]\ndefault_hooks = ports\nhooks = ${default_hooks},memory",
            "inspector",
            "hooks",
            ["ports", "memory"],
        ),
        ("[inspector]\ndefault_hooks = ports", "inspector", "hooks", ["ports"]),
        (
            "[redfish]\ninspection_hooks = $default_inspection_hooks,parse-lldp",
            "redfish",
            "inspection_hooks",
            ["validate-interfaces", "ports", "architecture", "parse-lldp"],
        ),
        (
            "my_ip = 192.0.2.1\n[deploy]\nhttp_url = http://$my_ip:8080",
            "deploy",
            "http_url",
            "http://192.0.2.1:8080",
        ),
        (
            "[deploy]\nhttp_url = http://${api.host}:80",
            "deploy",
            "http_url",
            "http://127.0.0.1:80",
        ),
        ("[pxe]\ntftp_root = /$$x", "pxe", "tftp_root", "/$x"),
    ],
)
def test_names_of_other_options_are_expanded(
    load: Load, text: str, group: str, name: str, value: object
) -> None:
    assert load(text)[group][name] == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[deploy]\nhttp_url = http://$my_ip:8080",
            "[deploy]http_url: uses $my_ip, which is not set",
        ),
        (
            "[pxe]\ntftp_root = /srv/${deploy.http_root}",
            "[pxe]tftp_root: uses $deploy.http_root, which is not set",
        ),
        (
            "[inspector]\nhooks = $redfish.inspection_hooks",
            "[inspector]hooks: uses $redfish.inspection_hooks, which is a list",
        ),
        (
            "[DEFAULT]\ntransport_url = rabbit://u:pa$word@h",
            "transport_url: a $name in it is no option",
        ),
    ],
)
def test_name_that_expands_to_nothing_is_refused(load: Load, text: str, said: str) -> None:
    assert said in refusal(load, text)


def test_unknown_option_of_default_is_named(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("no_image_at_all = true\nexecutor_thread_pool_size = 9\nuse_syslog = false\n")
    said = [one for one in capsys.readouterr().err.splitlines() if "does not know" in one]
    assert len(said) == 1
    assert "[DEFAULT]no_image_at_all (in " in said[0]


def test_options_of_ironic_without_effect_are_one_line(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    load(
        "force_raw_images = true\n[swift]\nregion_name = x\n[nova]\n"
        "send_power_notifications = false\n[keystone_authtoken]\nauth_section = login\n[login]\n"
        "username = x\n[api]\nauth_strategy = noauth\n[oslo_messaging_rabbit]\nssl = true\n"
        "[of_a_plugin]\nx = y\n"
    )
    said = [one for one in capsys.readouterr().err.splitlines() if "no effect" in one]
    assert len(said) == 1
    assert said[0].endswith(
        "3 options of Ironic have no effect here (1 with a loss): ironic-lite-status "
        "check-ironic-conf FILE lists them."
    )


@pytest.mark.parametrize("group", ["ilo", "irmc", "snmp", "xclarity", "molds", "json_rpc"])
def test_group_of_an_earlier_ironic_has_no_effect(
    load: Load, capsys: pytest.CaptureFixture[str], group: str
) -> None:
    load(f"[api]\nauth_strategy = noauth\n[{group}]\nx = y\n")
    assert "1 option of Ironic has no effect here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "ours"),
    [
        ("OS_API__API_WORKERS", 3, "api.workers"),
        ("OS_SSL__CERT_FILE", "/a.pem", "api.cert_file"),
        ("OS_CONDUCTOR__AUTOMATED_CLEAN", False, "conductor.automated_clean_enable"),
        ("OS_CONDUCTOR__SEND_SENSOR_DATA", True, "sensor_data.send_sensor_data"),
    ],
)
def test_ironics_name_in_the_environment_takes_effect(
    load: Load, monkeypatch: pytest.MonkeyPatch, name: str, value: object, ours: str
) -> None:
    right = f"OS_{ours.replace('.', '__')}".upper()
    group, option = ours.split(".")
    monkeypatch.setenv(right, "")
    monkeypatch.delenv(right)  # and when the test ends
    monkeypatch.setenv(name, str(value))
    assert load(f"[{group}]\n{option} = 1\n")[group][option] == value


def test_our_name_of_an_option_goes_before_ironics_in_the_environment(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_API__API_WORKERS", "3")
    monkeypatch.setenv("OS_API__WORKERS", "2")
    assert load("").api.workers == 2
    monkeypatch.setenv("OS_API__WORKERS", "many")
    assert refusal(load, "") == "[api]workers: 'many' is not a whole number (in OS_API__WORKERS)"


def test_option_of_ironic_in_the_environment_is_judged_alike(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_AUDIT__ENABLED", "true")
    assert "[audit]enabled (in OS_AUDIT__ENABLED)" in refusal(load, "")
