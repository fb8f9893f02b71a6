"""The image of an instance on its way to the agent."""

import base64
import bz2
import gzip
import hashlib
import lzma
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers.agent import serving
from ironic_lite.images import published
from tests.emulators import images as image_server
from tests.support.fake_task import FakeTask, node

CONTENT = b"an image, and not a small one\n" * 100_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URL = "http://images.example/jammy.raw"


@pytest.fixture
def images(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
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


def test_an_image_of_the_web_is_left_to_the_agent(images: pathlib.Path) -> None:
    """Nothing is fetched, nothing is served."""
    task = _task()
    serving.make_ready(task)
    told = serving.for_agent(task)
    assert told["image_info"]["urls"] == [URL]
    assert told["configdrive"] is None
    assert _served(task) == []


@pytest.mark.parametrize("sums", [False, True], ids=["digits", "file of checksums"])
def test_a_file_is_judged_and_served_under_a_name_of_its_own(
    images: pathlib.Path, sums: bool
) -> None:
    """The agent gets the digest itself: the served name is in no file of checksums."""
    checksum = (images / "SHA256SUMS").as_uri() if sums else SHA256
    task = _task((images / "jammy.raw").as_uri(), checksum)
    serving.make_ready(task)
    told = serving.for_agent(task)["image_info"]
    (file,) = _served(task)
    assert file.read_bytes() == CONTENT
    assert told["urls"] == [f"http://192.0.2.1:8080/images/{file.name}"]
    assert (told["os_hash_algo"], told["os_hash_value"]) == ("sha256", SHA256)
    assert told["disk_format"] == "raw"
    assert file.name.startswith(task.node.uuid)
    assert len(file.name) > len(task.node.uuid) + 16
    serving.remove(task)
    serving.remove(task)
    assert _served(task) == []
    assert (images / "jammy.raw").exists()


def test_format_that_nothing_has_found_out_is_left_to_the_agent(images: pathlib.Path) -> None:
    """Taken for raw, a qcow2 image would be written to the disk as it stands."""
    task = _task((images / "jammy.raw").as_uri())
    config.CONF.set_override("disable_deep_image_inspection", True, "conductor")
    try:
        assert "disk_format" not in serving.for_agent(task)["image_info"]
        task.node.instance_info["image_disk_format"] = "qcow2"
        assert serving.for_agent(task)["image_info"]["disk_format"] == "qcow2"
    finally:
        config.CONF.clear_override("disable_deep_image_inspection", "conductor")


def test_another_conductor_serves_it_again(images: pathlib.Path) -> None:
    """Under the name that the agent was told."""
    task = _task((images / "jammy.raw").as_uri())
    serving.make_ready(task)
    (before,) = _served(task)
    before.unlink()
    serving.take_over(task)
    assert _served(task) == [before]


@pytest.fixture
def web(tmp_path: pathlib.Path) -> Iterator[image_server.Images]:
    folder = tmp_path / "web"
    folder.mkdir()
    with image_server.serve(folder) as found:
        found.put("jammy.raw", CONTENT)
        (folder / "SHA256SUMS").write_text(f"{SHA256}  jammy.raw\n")
        yield found


@pytest.mark.parametrize("sums", [False, True], ids=["digits", "file of checksums"])
@pytest.mark.parametrize("fate", ["changed", "gone"])
def test_verified_image_is_not_fetched_again_for_the_agent(
    images: pathlib.Path, web: image_server.Images, sums: bool, fate: str
) -> None:
    """Its server may have lost it since, but the published file is there."""
    checksum = f"{web.url}/SHA256SUMS" if sums else SHA256
    task = _task(f"{web.url}/jammy.raw", checksum, image_download_source="local")
    serving.make_ready(task)
    before, (file,) = list(web.fetched), _served(task)
    if fate == "changed":
        web.put("jammy.raw", b"another")
        (web.folder / "SHA256SUMS").write_text(f"{'0' * 64}  jammy.raw\n")
    else:
        for path in web.folder.iterdir():
            path.unlink()
    told = serving.for_agent(task)["image_info"]
    assert told["urls"] == [f"http://192.0.2.1:8080/images/{file.name}"]
    assert (told["os_hash_value"], told["disk_format"]) == (SHA256, "raw")
    assert web.fetched == before


def test_mark_of_a_request_differs_by_node(images: pathlib.Path) -> None:
    """It depends on a login in the image's address; readers of the node could try passwords."""
    marks = set()
    for _ in range(2):
        task = _task((images / "jammy.raw").as_uri())
        serving.make_ready(task)
        marks.add(task.recall(serving.PROOF)["of"])
    assert len(marks) == 2


def test_published_image_is_fetched_again_if_it_is_gone_or_another_is_wanted(
    images: pathlib.Path, web: image_server.Images
) -> None:
    task = _task(f"{web.url}/jammy.raw", image_download_source="local")
    serving.make_ready(task)
    (file,) = _served(task)
    file.unlink()
    serving.for_agent(task)
    assert file.read_bytes() == CONTENT
    more = web.put("other.raw", b"other" * 1000)
    task.node.instance_info = {**more, "image_download_source": "local"}
    told = serving.for_agent(task)["image_info"]
    assert told["os_hash_value"] == more["image_os_hash_value"]
    assert file.read_bytes() == b"other" * 1000


def test_published_image_that_was_changed_is_not_given_to_a_machine(images: pathlib.Path) -> None:
    task = _task((images / "jammy.raw").as_uri())
    serving.make_ready(task)
    (file,) = _served(task)
    file.unlink()
    file.write_bytes(b"another")
    with pytest.raises(errors.ImageUnusable, match="sha256"):
        serving.for_agent(task)


def test_checksum_of_a_local_image_is_computed(images: pathlib.Path) -> None:
    """Its owner needs to give none; an image of the web needs one."""
    task = _task((images / "jammy.raw").as_uri(), None)
    del task.node.instance_info["image_checksum"]
    serving.check(task)
    serving.make_ready(task)
    told = serving.for_agent(task)["image_info"]
    assert (told["os_hash_algo"], told["os_hash_value"]) == ("sha256", SHA256)
    task.node.instance_info["image_source"] = URL
    with pytest.raises(errors.MissingParameter, match="instance_info/image_checksum"):
        serving.check(task)


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
    images: pathlib.Path, web: image_server.Images, content: bytes | None, said: str
) -> None:
    """A local one at once, with its path; one of the web before the machine is touched."""
    file = images / "bad.raw"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(errors.InvalidParameter, match=said) as why:
        serving.check(_task(file.as_uri(), "0" * 64))
    assert why.value.facts["path"] == "instance_info/image_source"
    if content is not None:
        task = _task(image_download_source="local")
        task.node.instance_info |= {"image_checksum": None, **web.put("bad.raw", content)}
        with pytest.raises(errors.ImageUnusable, match=said):
            serving.make_ready(task)
        assert _served(task) == []


@pytest.mark.parametrize("ending", ["gz", "XZ", "zst"])
def test_name_of_a_compressed_image_is_refused(images: pathlib.Path, ending: str) -> None:
    """The agent would write it to the disk as it is."""
    with pytest.raises(errors.InvalidParameter, match="compressed") as why:
        serving.check(_task(f"{URL}.{ending}"))
    assert why.value.facts["path"] == "instance_info/image_source"


def test_a_broken_image_never_reaches_a_machine(images: pathlib.Path) -> None:
    """Its digest says so, before anything is switched off."""
    task = _task((images / "jammy.raw").as_uri())
    (images / "jammy.raw").write_bytes(CONTENT[:-1])
    with pytest.raises(errors.ImageUnusable, match="sha256"):
        serving.make_ready(task)
    assert _served(task) == []


def test_a_file_of_checksums_without_the_image_is_no_help(images: pathlib.Path) -> None:
    """It says which name was looked for."""
    (images / "SHA256SUMS").write_text(f"{SHA256}  other.raw\n")
    task = _task((images / "jammy.raw").as_uri(), (images / "SHA256SUMS").as_uri())
    with pytest.raises(errors.ImageUnusable, match=r"jammy\.raw"):
        serving.make_ready(task)


@pytest.mark.parametrize("by", ["node", "operator", "option"])
def test_image_download_source_of_the_node_precedes_the_option(
    images: pathlib.Path, by: str
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
        serving.make_ready(task)


def test_an_unknown_download_source_of_driver_info_is_refused(images: pathlib.Path) -> None:
    task = _task("http://images.invalid/jammy.raw")
    task.node.driver_info = {"image_download_source": "swift"}
    with pytest.raises(errors.InvalidParameter, match="driver_info/image_download_source"):
        serving.wanted(task)


def test_files_elsewhere_on_the_conductor_are_nobodys_business(images: pathlib.Path) -> None:
    """Neither as an image nor as its checksums."""
    for image, checksum in (("file:///etc/shadow", SHA256), (None, "file:///etc/shadow")):
        task = _task(image or (images / "jammy.raw").as_uri(), checksum)
        with pytest.raises(errors.InvalidParameter, match="file_url_allowed_paths"):
            serving.wanted(task)


def test_the_agent_is_told_proxies_and_the_configuration_drive(images: pathlib.Path) -> None:
    """An object becomes a file system, a URL stays one."""
    task = _task(configdrive={"meta_data": {"name": "web"}})
    task.node.driver_info = {"image_https_proxy": "http://proxy:3128", "image_no_proxy": "a,b"}
    told = serving.for_agent(task)
    assert told["image_info"]["proxies"] == {"https": "http://proxy:3128"}
    assert told["image_info"]["no_proxy"] == "a,b"
    assert b"config-2" in gzip.decompress(base64.b64decode(told["configdrive"]))
    task = _task(configdrive="http://images.example/drive")
    assert serving.for_agent(task)["configdrive"] == "http://images.example/drive"


def test_wrong_hints_for_the_disk_are_refused(images: pathlib.Path) -> None:
    """Wherever they stand."""
    task = _task()
    task.node.properties = {"root_device": {"colour": "red"}}
    with pytest.raises(errors.InvalidParameter, match="properties/root_device/colour"):
        serving.wanted(task)


def test_hints_that_the_agent_does_not_read_are_not_checked(images: pathlib.Path) -> None:
    task = _task(root_device={"serial": "S1"})
    task.node.properties = {"root_device": {"size": "100 GB"}}
    serving.wanted(task)


@pytest.mark.parametrize(
    ("drive", "said"),
    [
        ("http://169.254.169.254/drive", "closed by"),
        ({"userdata": "x"}, "has the unknown key userdata"),
    ],
)
def test_a_drive_that_cannot_be_written_is_refused_with_the_image(
    images: pathlib.Path, drive: Any, said: str
) -> None:
    """The agent would find it out after it has written the image."""
    with pytest.raises(errors.InvalidParameter, match=said) as why:
        serving.wanted(_task(configdrive=drive))
    assert why.value.facts["path"] == "instance_info/configdrive"


def test_boot_mode_is_kept_for_the_agents_next_lookup(images: pathlib.Path) -> None:
    """It makes other partitions for UEFI."""
    task = _task(capabilities={"boot_mode": "uefi"})
    serving.make_ready(task)
    assert task.recall("deploy_boot_mode") == "uefi"


@pytest.mark.parametrize("mode", ["bios", "uefi"])
@pytest.mark.parametrize("allowed", [False, True])
def test_programs_of_an_image_run_in_the_ramdisk_only_where_that_is_allowed(
    images: pathlib.Path, mode: str, allowed: bool
) -> None:
    """A partition image has its own grub-install run, and agents refuse that unless told."""
    config.CONF.set_override("enable_bios_bootloader_install", allowed, "agent")
    task = _task(image_type="partition", root_gb=1, capabilities={"boot_mode": mode})
    if allowed:
        assert serving.wanted(task).kind == "partition"
        return
    with pytest.raises(errors.InvalidParameter, match="enable_bios_bootloader_install") as why:
        serving.wanted(task)
    assert why.value.facts["path"] == "instance_info/image_type"


def test_repeated_preparation_of_a_run_fetches_nothing(
    images: pathlib.Path, web: image_server.Images
) -> None:
    """A conductor that takes the run over at its begin repeats the preparation."""
    task = _task(f"{web.url}/jammy.raw", image_download_source="local")
    task.node.run_uuid = "a run"
    serving.make_ready(task)
    before = list(web.fetched)
    web.put("jammy.raw", b"another")
    serving.make_ready(task)
    assert web.fetched == before
    task.node.run_uuid = "another run"
    serving.make_ready(task)
    assert len(web.fetched) > len(before)
