"""Images of every kind, written by a real agent to a real block device, a loop device.

The interface is ``direct`` itself, step by step; programs that partition, format and convert are
the machine's own. What needs rights that this agent has not (mount, chroot) are stand-ins.
"""

from __future__ import annotations

import base64
import bz2
import contextlib
import gzip
import hashlib
import lzma
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import images as agent_images
from ironic_lite.drivers.agent.deploy import DirectDeploy
from ironic_lite.images import configdrive, published
from tests.emulators import images
from tests.emulators import images as image_server
from tests.emulators.agent import block as block_device
from tests.emulators.agent import process
from tests.emulators.redfish import certificate
from tests.support.fake_task import FakeTask, node
from tests.support.real_agent import Known, running, until

DEPLOY = base.StepKind.DEPLOY
MIB = images.MIB
DRIVE = {"meta_data": {"hostname": "web-1"}, "user_data": "#cloud-config\n", "network_data": {}}


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Known, images.Images]]:
    """A machine whose first disk is a loop device, and its second a file; and an https server."""
    folder = tmp_path_factory.mktemp("https")
    pem, key = certificate(folder)
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(images.serve(folder, (pem, key)))
        found = stack.enter_context(running(loop=True, authority=pem))
        yield found, web


@pytest.fixture
def web(tmp_path: pathlib.Path) -> Iterator[images.Images]:
    """A server of http."""
    folder = tmp_path / "web"
    folder.mkdir()
    with images.serve(folder) as found:
        yield found


@pytest.fixture
def machine(block: tuple[Known, images.Images], conf: cfg.ConfigOpts) -> process.Agent:
    """The machine, as the last test has left it."""
    return block[0][0]


@pytest.fixture
def task(
    machine: process.Agent, block: tuple[Known, images.Images], conf: cfg.ConfigOpts
) -> FakeTask:
    """A task of this machine that is being deployed in BIOS mode."""
    conf.set_override("enable_bios_bootloader_install", True, "agent")
    bios = {"capabilities": "boot_mode:bios"}
    found = FakeTask(node(provision_state="deploying", properties=bios))
    found.agent = block[0][1]
    return found


def _run(task: FakeTask, name: str) -> None:
    """Run a step of the interface to its end, as the engine would."""
    deploy = DirectDeploy()
    step: base.StoredStep = {"step": name, "interface": "deploy", "priority": 0, "args": {}}
    if deploy.execute_deploy_step(task, step) is base.WAIT:
        until(lambda: deploy.poll_step(task, DEPLOY, step) is base.DONE)


def _deploy(task: FakeTask, info: dict[str, Any], **more: Any) -> None:
    task.node.instance_info = {**info, **more}
    deploy = DirectDeploy()
    deploy.validate(task)
    _run(task, "write_image")
    _run(task, "prepare_instance_boot")


def _loop(machine: process.Agent) -> block_device.Loop:
    assert machine.loop is not None
    return machine.loop


def _read(machine: process.Agent, size: int, at: int = 0) -> bytes:
    with open(_loop(machine).device, "rb") as disk:
        disk.seek(at)
        return disk.read(size)


def _qemu_img(*words: str) -> None:
    if shutil.which("qemu-img") is None:
        pytest.skip("NOT TESTED: no qemu-img; scripts/programs.sh installs it")
    subprocess.run(["qemu-img", *words], check=True, capture_output=True, timeout=60)


def _qcow2(web: images.Images, content: bytes) -> dict[str, Any]:
    """Return what is said of a qcow2 image with this content."""
    raw, packed = web.folder / "raw", web.folder / "packed"
    raw.write_bytes(content)
    _qemu_img("convert", "-c", "-f", "raw", "-O", "qcow2", str(raw), str(packed))
    return web.put("system.qcow2", packed.read_bytes()) | {"image_disk_format": "qcow2"}


def test_a_qcow2_image_is_unpacked_onto_the_disk_and_gets_its_drive(
    task: FakeTask, machine: process.Agent, web: images.Images
) -> None:
    """The drive becomes one more partition of the disk."""
    content = images.disk()
    _deploy(task, _qcow2(web, content), configdrive=DRIVE)
    assert _read(machine, MIB, MIB) == content[MIB:]
    first, second = _loop(machine).partitions()
    assert (first["PART_ENTRY_NUMBER"], first["PART_ENTRY_OFFSET"]) == ("1", "2048")
    assert second["LABEL"] == configdrive.LABEL
    found = images.drive(second["DEVNAME"])
    assert b'"hostname":"web-1"' in found["meta_data.json"]
    assert task.node.uuid.encode() in found["meta_data.json"]
    assert found["user_data"] == b"#cloud-config\n"


def test_a_gpt_image_of_https_gets_its_drive_from_an_address(
    task: FakeTask, machine: process.Agent, block: tuple[Known, images.Images]
) -> None:
    """The agent trusts the authority of that server; the table grows to the end of the disk."""
    web = block[1]
    path = web.folder / "gpt.raw"
    path.write_bytes(bytes(4 * MIB))
    words = ["sgdisk", "--new", "1:2048:4095", "--change-name", "1:system", str(path)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    built = configdrive.build(DRIVE, uuid=task.node.uuid)
    web.put("drive.gz", built.encode())
    url = f"{web.url}/drive.gz"
    _deploy(task, web.put("gpt.raw", path.read_bytes()), configdrive=url)
    first, second = _loop(machine).partitions()
    assert (first["PART_ENTRY_NAME"], first["PART_ENTRY_SCHEME"]) == ("system", "gpt")
    assert second["LABEL"] == configdrive.LABEL
    assert int(second["PART_ENTRY_OFFSET"]) * 512 > process.LARGE_BYTES - 70 * MIB
    assert images.drive(second["DEVNAME"])["user_data"] == b"#cloud-config\n"


def test_a_partition_image_gets_its_neighbours_and_a_boot_loader(
    task: FakeTask, machine: process.Agent, web: images.Images
) -> None:
    """Up to mounting, which takes rights: its programs are not run, but asked for."""
    (web.folder / "root/etc/default").mkdir(parents=True)
    (web.folder / "root/etc/default/grub").write_text("GRUB_TIMEOUT=1\n")
    path = web.folder / "root.raw"
    with path.open("wb") as made:
        made.truncate(8 * MIB)
    words = ["mkfs.ext4", "-q", "-F", "-L", "cloudimg", "-d", str(web.folder / "root"), str(path)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    sizes = {"root_gb": 1, "swap_mb": 16, "ephemeral_gb": 1}
    drive = configdrive.build(DRIVE, uuid=task.node.uuid)
    info = web.put("root.raw", path.read_bytes()) | {"image_type": "partition"}
    _deploy(task, info, configdrive=drive, **sizes)
    ephemeral, swap, config, root = _loop(machine).partitions()
    assert (ephemeral["TYPE"], ephemeral["LABEL"]) == ("ext4", "ephemeral0")
    assert (swap["TYPE"], swap["LABEL"]) == ("swap", "swap1")
    assert config["LABEL"] == configdrive.LABEL
    assert (root["TYPE"], root["LABEL"]) == ("ext4", "cloudimg")
    found = [int(one["PART_ENTRY_SIZE"]) * 512 // MIB for one in (ephemeral, swap, root)]
    assert found == [1024, 16, 1024]
    assert images.drive(config["DEVNAME"])["user_data"] == b"#cloud-config\n"
    calls = machine.calls()
    (mounted,) = [call for call in calls if call.startswith(f"mount {root['DEVNAME']} ")]
    place = mounted.split()[-1]
    asked = [call for call in calls if call.startswith(f"chroot {place} ")]
    assert f"chroot {place} /bin/sh -c grub-install {_loop(machine).device}" in asked


def test_hints_choose_the_disk(task: FakeTask, machine: process.Agent, web: images.Images) -> None:
    """Of two; the image's server sends the agent on to another address."""
    before = _read(machine, MIB)
    content = images.disk(b"on the second\n")
    info = web.put("second.raw", content)
    info["image_source"] = f"{web.url}/moved/second.raw"
    _deploy(task, info, root_device={"serial": "F2"})
    assert (machine.folder / "F2.img").read_bytes().startswith(content)
    assert _read(machine, MIB) == before
    assert web.fetched == ["moved/second.raw", "second.raw"]


def _sums(web: images.Images, *lines: str) -> str:
    (web.folder / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines))
    return f"{web.url}/SHA256SUMS"


@pytest.mark.parametrize(
    "form", ["{sum}  a.raw", "{sum} *a.raw", "SHA256 (a.raw) = {sum}", "{sum}"]
)
def test_the_checksum_may_be_in_a_file_of_its_own(
    task: FakeTask, machine: process.Agent, web: images.Images, form: str
) -> None:
    """In the forms in which distributions write it; of several images the one that is meant."""
    content = images.disk(form.encode())
    lines = [form.format(sum=hashlib.sha256(content).hexdigest())]
    if "a.raw" in form:
        lines = ["# of today", f"{'0' * 64}  b.raw", *lines]
    info = web.put("a.raw", content)
    named = {key: info[key] for key in ("image_source", "image_disk_format")}
    _deploy(task, named, image_checksum=_sums(web, *lines), root_device={"serial": "F2"})
    assert (machine.folder / "F2.img").read_bytes().startswith(content)


def _missing(web: images.Images) -> dict[str, Any]:
    return web.put("a.raw", images.disk()) | {"image_source": f"{web.url}/b.raw"}


def _cut(web: images.Images) -> dict[str, Any]:
    return web.put("a.raw", images.disk()) | {"image_source": f"{web.url}/cut/a.raw"}


def _not_listed(web: images.Images) -> dict[str, Any]:
    info = web.put("a.raw", images.disk())
    return {
        "image_source": info["image_source"],
        "image_checksum": _sums(web, f"{'0' * 64}  b.raw"),
    }


def _another(web: images.Images) -> dict[str, Any]:
    info = web.put("a.raw", images.disk())
    return {
        "image_source": info["image_source"],
        "image_checksum": _sums(web, f"{'0' * 64}  a.raw"),
    }


def _laid_over(web: images.Images) -> dict[str, Any]:
    path = web.folder / "made"
    _qemu_img("create", "-f", "qcow2", "-b", "/etc/passwd", "-F", "raw", str(path), "1M")
    return web.put("a.qcow2", path.read_bytes()) | {"image_disk_format": "qcow2"}


def _no_qcow2(web: images.Images) -> dict[str, Any]:
    return web.put("a.qcow2", images.disk()) | {"image_disk_format": "qcow2"}


def _too_large(web: images.Images) -> dict[str, Any]:
    path = web.folder / "made"
    _qemu_img("create", "-f", "qcow2", str(path), "2G")
    info = web.put("a.qcow2", path.read_bytes()) | {"image_disk_format": "qcow2"}
    return info | {"image_type": "partition", "root_gb": 1}


def _no_disk(web: images.Images) -> dict[str, Any]:
    return web.put("a.raw", images.disk()) | {"root_device": {"serial": "F9"}}


def _no_drive(web: images.Images) -> dict[str, Any]:
    return web.put("a.raw", images.disk()) | {"configdrive": f"{web.url}/none.gz"}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (_missing, r"404.*b\.raw"),
        (_cut, r"cut/a\.raw|IncompleteRead|Connection broken"),
        (_not_listed, r"does not contain name a\.raw"),
        (_another, "checksum"),
        (_laid_over, "safety check"),
        (_no_qcow2, "Expected format was qcow2, but image was actually"),
        (_too_large, "Root partition is too small"),
        (_no_disk, "F9"),
        (_no_drive, r"none\.gz.*404"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_image_that_cannot_be_written_fails_with_advice(
    task: FakeTask, web: images.Images, broken: Any, said: str
) -> None:
    """All of it found by the agent; no checksum, format or disk is taken on trust."""
    with pytest.raises(errors.AgentCommandFailed, match=f"(?s){said}"):
        _deploy(task, broken(web))


def test_a_server_whose_authority_is_not_known_gets_no_request(
    task: FakeTask, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with images.serve(folder, certificate(folder)) as web:
        info = web.put("a.raw", images.disk())
        with pytest.raises(errors.AgentCommandFailed, match="CERTIFICATE_VERIFY_FAILED"):
            _deploy(task, info)
        assert web.fetched == []


# The image of an instance on its way to the agent.

CONTENT = b"an image, and not a small one\n" * 100_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URL = "http://images.example/jammy.raw"


@pytest.fixture
def served_images(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder of images that nodes may name."""
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "jammy.raw").write_bytes(CONTENT)
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  other.raw\n{SHA256}  jammy.raw\n")
    config.CONF([], default_config_files=[], default_config_dirs=[])
    config.CONF.set_override("state_path", str(tmp_path / "state"))
    config.CONF.set_override("file_url_allowed_paths", [str(folder)], "conductor")
    config.CONF.set_override("http_url", "http://192.0.2.1:8080", "deploy")
    yield folder
    config.CONF.clear_override("state_path")
    config.CONF.clear_override("file_url_allowed_paths", "conductor")
    config.CONF.clear_override("http_url", "deploy")
    config.CONF.clear_override("image_download_source", "agent")
    config.CONF.clear_override("enable_bios_bootloader_install", "agent")


def _task(image: Any = URL, checksum: str | None = SHA256, **info: Any) -> FakeTask:
    found = {"image_source": image, "image_checksum": checksum, **info}
    return FakeTask(node(instance_info=found))


def _served(task: FakeTask) -> list[pathlib.Path]:
    return [file for file in published.root().rglob("*") if file.is_file()]


def test_an_image_of_the_web_is_left_to_the_agent(served_images: pathlib.Path) -> None:
    """Nothing is fetched, nothing is served."""
    task = _task()
    agent_images.make_ready(task)
    told = agent_images.step_arguments(task)
    assert told["image_info"]["urls"] == [URL]
    assert told["configdrive"] is None
    assert _served(task) == []


@pytest.mark.parametrize("sums", [False, True], ids=["digits", "file of checksums"])
def test_a_file_is_judged_and_served_under_a_name_of_its_own(
    served_images: pathlib.Path, sums: bool
) -> None:
    """The agent gets the digest itself: the served name is in no file of checksums."""
    checksum = (served_images / "SHA256SUMS").as_uri() if sums else SHA256
    task = _task((served_images / "jammy.raw").as_uri(), checksum)
    agent_images.make_ready(task)
    told = agent_images.step_arguments(task)["image_info"]
    (file,) = _served(task)
    assert file.read_bytes() == CONTENT
    assert told["urls"] == [f"http://192.0.2.1:8080/images/{file.name}"]
    assert (told["os_hash_algo"], told["os_hash_value"]) == ("sha256", SHA256)
    assert told["disk_format"] == "raw"
    assert file.name.startswith(task.node.uuid)
    assert len(file.name) > len(task.node.uuid) + 16
    agent_images.remove(task)
    agent_images.remove(task)
    assert _served(task) == []
    assert (served_images / "jammy.raw").exists()


def test_format_that_nothing_has_found_out_is_left_to_the_agent(
    served_images: pathlib.Path,
) -> None:
    """Taken for raw, a qcow2 image would be written to the disk as it stands."""
    task = _task((served_images / "jammy.raw").as_uri())
    config.CONF.set_override("disable_deep_image_inspection", True, "conductor")
    try:
        assert "disk_format" not in agent_images.step_arguments(task)["image_info"]
        task.node.instance_info["image_disk_format"] = "qcow2"
        assert agent_images.step_arguments(task)["image_info"]["disk_format"] == "qcow2"
    finally:
        config.CONF.clear_override("disable_deep_image_inspection", "conductor")


def test_another_conductor_serves_it_again(served_images: pathlib.Path) -> None:
    """Under the name that the agent was told."""
    task = _task((served_images / "jammy.raw").as_uri())
    agent_images.make_ready(task)
    (before,) = _served(task)
    before.unlink()
    agent_images.take_over(task)
    assert _served(task) == [before]


@pytest.fixture
def served_web(tmp_path: pathlib.Path) -> Iterator[image_server.Images]:
    folder = tmp_path / "web"
    folder.mkdir()
    with image_server.serve(folder) as found:
        found.put("jammy.raw", CONTENT)
        (folder / "SHA256SUMS").write_text(f"{SHA256}  jammy.raw\n")
        yield found


@pytest.mark.parametrize("sums", [False, True], ids=["digits", "file of checksums"])
@pytest.mark.parametrize("fate", ["changed", "gone"])
def test_verified_image_is_not_fetched_again_for_the_agent(
    served_images: pathlib.Path, served_web: image_server.Images, sums: bool, fate: str
) -> None:
    """Its server may have lost it since, but the published file is there."""
    checksum = f"{served_web.url}/SHA256SUMS" if sums else SHA256
    task = _task(f"{served_web.url}/jammy.raw", checksum, image_download_source="local")
    agent_images.make_ready(task)
    before, (file,) = list(served_web.fetched), _served(task)
    if fate == "changed":
        served_web.put("jammy.raw", b"another")
        (served_web.folder / "SHA256SUMS").write_text(f"{'0' * 64}  jammy.raw\n")
    else:
        for path in served_web.folder.iterdir():
            path.unlink()
    told = agent_images.step_arguments(task)["image_info"]
    assert told["urls"] == [f"http://192.0.2.1:8080/images/{file.name}"]
    assert (told["os_hash_value"], told["disk_format"]) == (SHA256, "raw")
    assert served_web.fetched == before


def test_conductor_serves_all_images_that_it_must_validate(
    served_images: pathlib.Path, served_web: image_server.Images
) -> None:
    task = _task(f"{served_web.url}/jammy.raw", image_download_source="http")
    config.CONF.set_override("conductor_always_validates_images", True, "conductor")
    try:
        agent_images.make_ready(task)
        told = agent_images.step_arguments(task)["image_info"]
    finally:
        config.CONF.clear_override("conductor_always_validates_images", "conductor")
    assert told["urls"] == [f"http://192.0.2.1:8080/images/{_served(task)[0].name}"]


def test_mark_of_a_request_differs_by_node(served_images: pathlib.Path) -> None:
    """It depends on a login in the image's address; readers of the node could try passwords."""
    marks = set()
    for _ in range(2):
        task = _task((served_images / "jammy.raw").as_uri())
        agent_images.make_ready(task)
        marks.add(task.recall(agent_images.SERVED_PROOF)["of"])
    assert len(marks) == 2


def test_published_image_is_fetched_again_if_it_is_gone_or_another_is_wanted(
    served_images: pathlib.Path, served_web: image_server.Images
) -> None:
    task = _task(f"{served_web.url}/jammy.raw", image_download_source="local")
    agent_images.make_ready(task)
    (file,) = _served(task)
    file.unlink()
    agent_images.step_arguments(task)
    assert file.read_bytes() == CONTENT
    more = served_web.put("other.raw", b"other" * 1000)
    task.node.instance_info = {**more, "image_download_source": "local"}
    told = agent_images.step_arguments(task)["image_info"]
    assert told["os_hash_value"] == more["image_os_hash_value"]
    assert file.read_bytes() == b"other" * 1000


def test_published_image_that_was_changed_is_not_given_to_a_machine(
    served_images: pathlib.Path,
) -> None:
    task = _task((served_images / "jammy.raw").as_uri())
    agent_images.make_ready(task)
    (file,) = _served(task)
    file.unlink()
    file.write_bytes(b"another")
    with pytest.raises(errors.ImageUnusable, match="sha256"):
        agent_images.step_arguments(task)


def test_checksum_of_a_local_image_is_computed(served_images: pathlib.Path) -> None:
    """Its owner needs to give none; an image of the web needs one."""
    task = _task((served_images / "jammy.raw").as_uri(), None)
    del task.node.instance_info["image_checksum"]
    agent_images.check_instance(task)
    agent_images.make_ready(task)
    told = agent_images.step_arguments(task)["image_info"]
    assert (told["os_hash_algo"], told["os_hash_value"]) == ("sha256", SHA256)
    task.node.instance_info["image_source"] = URL
    with pytest.raises(errors.MissingParameter, match="instance_info/image_checksum"):
        agent_images.check_instance(task)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (gzip.compress(CONTENT), "compressed with gzip"),
        (lzma.compress(CONTENT), "compressed with xz"),
        (bz2.compress(CONTENT), "compressed with bzip2"),
        (None, "No such file"),
    ],
    ids=["empty", "gzip", "xz", "bzip2", "missing"],
)
def test_image_that_no_disk_can_be_made_of_is_refused(
    served_images: pathlib.Path, served_web: image_server.Images, content: bytes | None, said: str
) -> None:
    """A local one at once, with its path; one of the web before the machine is touched."""
    file = served_images / "bad.raw"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(errors.InvalidParameter, match=said) as why:
        agent_images.check_instance(_task(file.as_uri(), "0" * 64))
    assert why.value.facts["path"] == "instance_info/image_source"
    if content is not None:
        task = _task(image_download_source="local")
        task.node.instance_info |= {"image_checksum": None, **served_web.put("bad.raw", content)}
        with pytest.raises(errors.ImageUnusable, match=said):
            agent_images.make_ready(task)
        assert _served(task) == []


@pytest.mark.parametrize("ending", ["gz", "XZ", "zst"])
def test_name_of_a_compressed_image_is_refused(served_images: pathlib.Path, ending: str) -> None:
    """The agent would write it to the disk as it is."""
    with pytest.raises(errors.InvalidParameter, match="compressed") as why:
        agent_images.check_instance(_task(f"{URL}.{ending}"))
    assert why.value.facts["path"] == "instance_info/image_source"


def test_a_broken_image_never_reaches_a_machine(served_images: pathlib.Path) -> None:
    """Its digest says so, before anything is switched off."""
    task = _task((served_images / "jammy.raw").as_uri())
    (served_images / "jammy.raw").write_bytes(CONTENT[:-1])
    with pytest.raises(errors.ImageUnusable, match="sha256"):
        agent_images.make_ready(task)
    assert _served(task) == []


def test_a_file_of_checksums_without_the_image_is_no_help(served_images: pathlib.Path) -> None:
    """It says which name was looked for."""
    (served_images / "SHA256SUMS").write_text(f"{SHA256}  other.raw\n")
    task = _task((served_images / "jammy.raw").as_uri(), (served_images / "SHA256SUMS").as_uri())
    with pytest.raises(errors.ImageUnusable, match=r"jammy\.raw"):
        agent_images.make_ready(task)


@pytest.mark.parametrize("by", ["node", "operator", "option"])
def test_image_download_source_of_the_node_precedes_the_option(
    served_images: pathlib.Path, by: str
) -> None:
    """The conductor tries to fetch it, and there is no such host."""
    task = _task("http://images.invalid/jammy.raw")
    if by == "node":
        task.node.instance_info = {**task.node.instance_info, "image_download_source": "local"}
        task.node.driver_info = {"image_download_source": "http"}
    elif by == "operator":
        task.node.driver_info = {"image_download_source": "local"}
    else:
        config.CONF.set_override("image_download_source", "local", "agent")
    with pytest.raises(errors.DownloadFailed):
        agent_images.make_ready(task)


def test_an_unknown_download_source_of_driver_info_is_refused(served_images: pathlib.Path) -> None:
    task = _task("http://images.invalid/jammy.raw")
    task.node.driver_info = {"image_download_source": "swift"}
    with pytest.raises(errors.InvalidParameter, match="driver_info/image_download_source"):
        agent_images.check_image(task)


def test_files_elsewhere_on_the_conductor_are_nobodys_business(served_images: pathlib.Path) -> None:
    """Neither as an image nor as its checksums."""
    for image, checksum in (("file:///etc/shadow", SHA256), (None, "file:///etc/shadow")):
        task = _task(image or (served_images / "jammy.raw").as_uri(), checksum)
        with pytest.raises(errors.InvalidParameter, match="file_url_allowed_paths"):
            agent_images.check_image(task)


def test_the_agent_is_told_proxies_and_the_configuration_drive(served_images: pathlib.Path) -> None:
    """An object becomes a file system, a URL stays one."""
    task = _task(configdrive={"meta_data": {"name": "web"}})
    task.node.driver_info = {"image_https_proxy": "http://proxy:3128", "image_no_proxy": "a,b"}
    told = agent_images.step_arguments(task)
    assert told["image_info"]["proxies"] == {"https": "http://proxy:3128"}
    assert told["image_info"]["no_proxy"] == "a,b"
    assert b"config-2" in gzip.decompress(base64.b64decode(told["configdrive"]))
    task = _task(configdrive="http://images.example/drive")
    assert agent_images.step_arguments(task)["configdrive"] == "http://images.example/drive"


def test_wrong_hints_for_the_disk_are_refused(served_images: pathlib.Path) -> None:
    """Wherever they stand."""
    task = _task()
    task.node.properties = {"root_device": {"colour": "red"}}
    with pytest.raises(errors.InvalidParameter, match="properties/root_device/colour"):
        agent_images.check_image(task)


def test_hints_that_the_agent_does_not_read_are_not_checked(served_images: pathlib.Path) -> None:
    task = _task(root_device={"serial": "S1"})
    task.node.properties = {"root_device": {"size": "100 GB"}}
    agent_images.check_image(task)


@pytest.mark.parametrize(
    ("drive", "said"),
    [
        ("http://169.254.169.254/drive", "closed by"),
        ({"userdata": "x"}, "has the unknown key userdata"),
    ],
)
def test_a_drive_that_cannot_be_written_is_refused_with_the_image(
    served_images: pathlib.Path, drive: Any, said: str
) -> None:
    """The agent would find it out after it has written the image."""
    with pytest.raises(errors.InvalidParameter, match=said) as why:
        agent_images.check_image(_task(configdrive=drive))
    assert why.value.facts["path"] == "instance_info/configdrive"


def test_boot_mode_is_kept_for_the_agents_next_lookup(served_images: pathlib.Path) -> None:
    """It makes other partitions for UEFI."""
    task = _task(capabilities={"boot_mode": "uefi"})
    agent_images.make_ready(task)
    assert task.recall("deploy_boot_mode") == "uefi"


@pytest.mark.parametrize("mode", ["bios", "uefi"])
@pytest.mark.parametrize("allowed", [False, True])
def test_programs_of_an_image_run_in_the_ramdisk_only_where_that_is_allowed(
    served_images: pathlib.Path, mode: str, allowed: bool
) -> None:
    """A partition image has its own grub-install run, and agents refuse that unless told."""
    config.CONF.set_override("enable_bios_bootloader_install", allowed, "agent")
    task = _task(image_type="partition", root_gb=1, capabilities={"boot_mode": mode})
    if allowed:
        assert agent_images.check_image(task).kind == "partition"
        return
    with pytest.raises(errors.InvalidParameter, match="enable_bios_bootloader_install") as why:
        agent_images.check_image(task)
    assert why.value.facts["path"] == "instance_info/image_type"


def test_repeated_preparation_of_a_run_fetches_nothing(
    served_images: pathlib.Path, served_web: image_server.Images
) -> None:
    """A conductor that takes the run over at its begin repeats the preparation."""
    task = _task(f"{served_web.url}/jammy.raw", image_download_source="local")
    task.node.run_uuid = "a run"
    agent_images.make_ready(task)
    before = list(served_web.fetched)
    served_web.put("jammy.raw", b"another")
    agent_images.make_ready(task)
    assert served_web.fetched == before
    task.node.run_uuid = "another run"
    agent_images.make_ready(task)
    assert len(served_web.fetched) > len(before)
