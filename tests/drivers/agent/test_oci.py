"""Images of registries in a deployment, written by a real agent or served by the conductor."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import zstandard

from ironic_lite import errors
from ironic_lite.core.options import Configuration
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import images
from ironic_lite.drivers.agent.deploy import DirectDeploy
from ironic_lite.images import published
from tests.emulators import images as web_server
from tests.emulators import registry as emulator
from tests.emulators.agent import process
from tests.emulators.registry import PASSWORD, Registry
from tests.support.fake_task import FakeTask, node
from tests.support.real_agent import until

DEPLOY = base.StepKind.DEPLOY
WRITE: base.StoredStep = {"step": "write_image", "interface": "deploy", "priority": 80, "args": {}}
NOTE = "oci_image"
SYSTEM, OTHER, ARM = (web_server.disk(text) for text in (b"one\n", b"two\n", b"arm\n"))
OPTIONS = (
    ("oci", "permit_fallback_to_http_transport"),
    ("deploy", "http_url"),
    *(("deploy", f"image_server_auth_{name}") for name in ("strategy", "hosts")),
    *(("deploy", f"image_server_{name}") for name in ("user", "password")),
    *(
        ("conductor", f"disable_{n}")
        for n in ("support_for_checksum_files", "zstandard_decompression")
    ),
)


@pytest.fixture
def site(conf: Configuration) -> Iterator[Configuration]:
    """Options of a site with a registry of plain http."""
    conf.set_override("permit_fallback_to_http_transport", True, "oci")
    conf.set_override("http_url", "http://192.0.2.1:8080", "deploy")
    yield conf
    for group, name in OPTIONS:
        conf.clear_override(name, group)


@pytest.fixture
def known(site: Configuration) -> Iterator[Registry]:
    """A registry with a token login, and images for two architectures."""
    with emulator.serve() as found:
        found.put_index({("amd64", "raw"): SYSTEM, ("arm64", "raw"): ARM})
        yield found


def want(task: FakeTask, known: Registry, **more: Any) -> FakeTask:
    """Let the task's node have an instance of the registry's image."""
    task.node.provision_state = "deploying"
    task.node.properties = {"cpu_arch": "x86_64"}
    task.node.instance_info = {
        "image_source": known.source(),
        "image_pull_secret": known.secret,
        "capabilities": {"boot_mode": "bios"},
        **more,
    }
    return task


def fresh(known: Registry, **more: Any) -> FakeTask:
    """Return a task without an agent."""
    return want(FakeTask(node(run_uuid="run-1")), known, **more)


def run(task: FakeTask) -> None:
    deploy = DirectDeploy()
    if deploy.execute_deploy_step(task, WRITE) is base.WAIT:
        until(lambda: deploy.poll_step(task, DEPLOY, WRITE) is base.DONE)


def arguments(task: FakeTask) -> dict[str, Any]:
    found: dict[str, Any] = images.step_arguments(task)["image_info"]
    return found


def refusal(task: FakeTask) -> str:
    with pytest.raises(errors.Error) as caught:
        DirectDeploy().validate(task)
        images.make_ready(task)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def test_the_agent_writes_the_layer_with_a_token_of_its_own(
    task: FakeTask, machine: process.Agent, known: Registry
) -> None:
    """The pull secret stays here, and a tag that moves later changes nothing."""
    want(task, known)
    DirectDeploy().validate(task)
    images.make_ready(task)
    known.put_index({("amd64", "raw"): OTHER})
    run(task)
    assert (machine.folder / "disk.img").read_bytes().startswith(SYSTEM)
    seen = machine.folder.rglob("*")
    text = b"".join(
        path.read_bytes() for path in seen if path.is_file() and path.stat().st_size < 10**7
    )
    assert PASSWORD.encode() not in text
    blobs = [
        header for path, header in zip(known.asked, known.headers, strict=True) if "/blobs/" in path
    ]
    assert [str(header).partition(" ")[0] for header in blobs] == ["Bearer"]
    notes = json.dumps(task.notes)
    assert PASSWORD not in notes
    assert not [token for token in known.tokens if token in notes]


def test_the_agent_gets_digest_format_and_authorization(known: Registry) -> None:
    task = fresh(known)
    images.make_ready(task)
    found = arguments(task)
    digest = emulator.digest(SYSTEM)
    assert found["urls"] == [f"{known.url}/v2/team/image/blobs/{digest}"]
    assert (found["os_hash_algo"], found["os_hash_value"]) == tuple(digest.split(":"))
    assert found["disk_format"] == "raw"
    header = base64.b64decode(found["image_request_authorization"]).decode()
    assert header.removeprefix("Bearer ") in known.tokens
    assert PASSWORD not in json.dumps(found)
    assert json.loads(task.notes[NOTE])["layer"] == digest


def test_the_format_that_the_owner_gave_goes_before_the_annotation(known: Registry) -> None:
    task = fresh(known, image_disk_format="qcow2")
    images.make_ready(task)
    assert arguments(task)["disk_format"] == "qcow2"
    known.put_disk(SYSTEM, tag="1")
    plain = fresh(known)
    images.make_ready(plain)
    assert "disk_format" not in arguments(plain)


def test_another_conductor_uses_the_digest_that_was_found(known: Registry) -> None:
    task = fresh(known)
    images.make_ready(task)
    known.put_index({("amd64", "raw"): OTHER})
    moved = task.elsewhere()
    images.make_ready(moved)
    assert arguments(moved)["os_hash_value"] == emulator.digest(SYSTEM).partition(":")[2]
    # Another address, or the end of the instance, lets the next deployment ask anew.
    moved.node.instance_info = {**moved.node.instance_info, "image_source": known.source() + "0"}
    known.put_index({("amd64", "raw"): OTHER}, tag="10")
    images.make_ready(moved)
    assert arguments(moved)["os_hash_value"] == emulator.digest(OTHER).partition(":")[2]
    images.forget_layer(task)
    images.make_ready(task)
    assert arguments(task)["os_hash_value"] == emulator.digest(OTHER).partition(":")[2]


def test_tear_down_forgets_what_was_found(known: Registry) -> None:
    task = fresh(known)
    images.make_ready(task)
    DirectDeploy().tear_down(task)
    assert NOTE not in task.notes


def test_a_token_that_the_registry_refuses_is_renewed_once(
    task: FakeTask, machine: process.Agent, known: Registry
) -> None:
    """The token expired while the agent was busy."""
    want(task, known)
    images.make_ready(task)
    known.revoke_in = 0
    run(task)
    assert (machine.folder / "disk.img").read_bytes().startswith(SYSTEM)


def test_a_registry_that_refuses_each_token_fails_the_step(task: FakeTask, known: Registry) -> None:
    want(task, known)
    images.make_ready(task)
    known.revoke_in = 0
    deploy = DirectDeploy()
    assert deploy.execute_deploy_step(task, WRITE) is base.WAIT

    def poll() -> bool:
        if known.revoke_in is None:
            known.revoke_in = 0
        return deploy.poll_step(task, DEPLOY, WRITE) is base.DONE

    with pytest.raises(errors.AgentCommandFailed, match="status code 401") as caught:
        until(poll)
    blobs = [path for path in known.asked if "/blobs/" in path]
    assert len(blobs) == 2
    assert PASSWORD not in str(caught.value)


# -- what the conductor downloads ----------------------------------------------------------------


def served(task: FakeTask) -> bytes:
    """Return the file that the conductor serves, after the preparation."""
    images.make_ready(task)
    found = arguments(task)
    assert "image_request_authorization" not in found
    name = str(found["urls"][0]).removeprefix("http://192.0.2.1:8080/")
    return (published.root() / name).read_bytes()


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_a_packed_layer_is_served_unpacked(known: Registry, packing: str) -> None:
    zstd = packing == "zstd"
    packed = zstandard.ZstdCompressor().compress(SYSTEM) if zstd else gzip.compress(SYSTEM)
    known.put_disk(packed, media=f"application/{packing}", title=f"disk.raw.{packing}")
    task = fresh(known)
    assert served(task) == SYSTEM
    found = arguments(task)
    assert found["os_hash_value"] == emulator.digest(SYSTEM).partition(":")[2]
    assert found["disk_format"] == "raw"
    before = len(known.asked)
    images.make_ready(task)
    assert len(known.asked) == before  # in the same run nothing is fetched again


def test_zstd_can_be_switched_off(known: Registry, site: Configuration) -> None:
    site.set_override("disable_zstandard_decompression", True, "conductor")
    known.put_disk(zstandard.ZstdCompressor().compress(SYSTEM), media="application/zstd")
    assert "disable_zstandard_decompression is true" in refusal(fresh(known))


def test_a_registry_with_basic_login_is_read_by_the_conductor(known: Registry) -> None:
    """Its header would be the secret itself."""
    known.login = "basic"
    task = fresh(known)
    assert served(task) == SYSTEM
    assert PASSWORD not in json.dumps(arguments(task))
    assert json.loads(task.notes[NOTE])["basic"] is True


def test_a_registry_that_stops_to_give_tokens_gets_no_login_to_the_agent(known: Registry) -> None:
    task = fresh(known)
    images.make_ready(task)
    known.login = "basic"
    with pytest.raises(errors.DownloadFailed, match="takes no tokens any more"):
        images.step_arguments(task)


def test_local_images_of_registries_are_checked_and_served(known: Registry) -> None:
    task = fresh(known, image_download_source="local")
    assert served(task) == SYSTEM
    known.put_disk(b"", tag="1", annotations={"disktype": "raw"})
    assert "without a digest or size" in refusal(fresh(known, image_download_source="local"))


# -- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"image_pull_secret": "a\nb"}, "instance_info/image_pull_secret: must be one line"),
        ({"image_pull_secret": ["x"]}, "instance_info/image_pull_secret: must be a string"),
        ({"image_checksum": "https://x/SUMS"}, "instance_info/image_checksum: must be the digits"),
        ({"image_checksum": "0" * 64}, "its layer is sha256:"),
        ({"image_checksum": "0" * 128}, "its layer is sha256:"),
        ({"image_source": "oci://u:p@r/a"}, "instance_info/image_source: must have no login"),
        ({"image_source": "oci://r"}, "instance_info/image_source: names no repository"),
    ],
)
def test_wrong_settings_are_refused(known: Registry, info: dict[str, Any], text: str) -> None:
    assert text in refusal(fresh(known, **info))


def test_a_checksum_that_is_the_layers_digest_is_accepted(known: Registry) -> None:
    task = fresh(known, image_checksum=emulator.digest(SYSTEM).partition(":")[2])
    images.make_ready(task)
    assert arguments(task)["os_hash_algo"] == "sha256"


def test_an_architecture_without_an_image_is_refused(known: Registry) -> None:
    task = fresh(known)
    task.node.properties = {"cpu_arch": "ppc64le"}
    assert "no disk image for ppc64le; it has amd64/raw, arm64/raw" in refusal(task)
    task.node.properties = {"cpu_arch": "aarch64"}
    images.make_ready(task)
    assert arguments(task)["os_hash_value"] == emulator.digest(ARM).partition(":")[2]


def test_the_secret_of_driver_info_is_not_for_a_lessee(known: Registry) -> None:
    """A lessee could name a registry that asks for it."""
    task = fresh(known, image_pull_secret=None)
    task.node.driver_info = {"image_pull_secret": known.secret}
    images.make_ready(task)
    images.forget_layer(task)
    task.node.lessee = "another-project"
    assert "set instance_info/image_pull_secret" in refusal(task)
    assert PASSWORD not in str(known.headers[-1])
    DirectDeploy().check_driver_info({"image_pull_secret": "t"})
    with pytest.raises(errors.InvalidParameter, match="driver_info/image_pull_secret"):
        DirectDeploy().check_driver_info({"image_pull_secret": ["x"]})
    DirectDeploy().check_driver_info({"image_pull_secret": 12345})  # written as JSON


def test_files_of_checksums_can_be_forbidden(site: Configuration, tmp_path: pathlib.Path) -> None:
    site.set_override("disable_support_for_checksum_files", True, "conductor")
    info = {"image_source": "http://192.0.2.9/a", "image_checksum": "http://192.0.2.9/SUMS"}
    task = FakeTask(node(instance_info=info))
    text = "instance_info/image_checksum: must be digits: [conductor]disable_support_for_checksum"
    assert text in refusal(task)


# -- logins of other servers -----------------------------------------------------------------------


@pytest.fixture
def web(site: Configuration, tmp_path: pathlib.Path) -> Iterator[web_server.Images]:
    """A web server that gets the login of image servers."""
    site.set_override("image_server_auth_strategy", "http_basic", "deploy")
    site.set_override("image_server_user", "site", "deploy")
    site.set_override("image_server_password", "site-word", "deploy")
    site.set_override("image_server_auth_hosts", ["127.0.0.1"], "deploy")
    folder = tmp_path / "web"
    folder.mkdir()
    with web_server.serve(folder) as found:
        yield found


LOGIN = {
    "image_server_auth_strategy": "http_basic",
    "image_server_user": "site",
    "image_server_password": "site-word",
}


def of_server(info: dict[str, Any], **more: Any) -> dict[str, Any]:
    return arguments(FakeTask(node(instance_info={**info, **more})))


def test_the_agent_gets_the_login_of_a_known_server(
    web: web_server.Images, site: Configuration
) -> None:
    info = web.put("a.raw", SYSTEM)
    assert LOGIN.items() <= of_server(info).items()
    own = info["image_source"].replace("http://", "http://me:mine@")
    assert not LOGIN.keys() & of_server(info, image_source=own).keys()
    site.set_override("image_server_auth_hosts", ["images.example.org"], "deploy")
    assert not LOGIN.keys() & of_server(info).keys()


def test_the_agent_sends_no_login_to_the_server_of_the_digests(web: web_server.Images) -> None:
    """It would send it to both, so the conductor asks for the digest."""
    info = web.put("a.raw", SYSTEM)
    sums = web.put("SUMS", f"{info['image_os_hash_value']}  a.raw\n".encode())["image_source"]
    found = of_server(info, image_os_hash_value=sums)
    assert found["os_hash_value"] == info["image_os_hash_value"]
    assert LOGIN.items() <= found.items()


def test_the_conductor_sends_the_login_to_a_known_server(
    known: Registry, site: Configuration
) -> None:
    """The emulated registry asks for a login, and its layers are files."""
    known.login = "basic"
    user, _, word = known.secret.partition(":")
    for name, value in {"strategy": "http_basic", "hosts": ["127.0.0.1"]}.items():
        site.set_override(f"image_server_auth_{name}", value, "deploy")
    site.set_override("image_server_user", user, "deploy")
    site.set_override("image_server_password", word, "deploy")
    digest = emulator.digest(SYSTEM)
    info = {
        "image_source": f"{known.url}/v2/team/image/blobs/{digest}",
        "image_checksum": digest.partition(":")[2],
        "image_download_source": "local",
    }
    assert served(FakeTask(node(instance_info=info, run_uuid="run-1"))) == SYSTEM
    # It is also the login of a registry there.
    assert served(fresh(known, image_pull_secret=None)) == SYSTEM
