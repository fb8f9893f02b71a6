"""What agents are told of their nodes, read as the agent itself reads it."""

import orjson
import pytest
from oslo_config import cfg

from ironic_lite.drivers.agent import about
from tests.support.fake_task import FakeTask, node


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({"instance_info": {"capabilities": {"boot_mode": "uefi"}}}, "uefi"),
        ({"instance_info": {"capabilities": "boot_mode:bios"}, "boot_mode": "uefi"}, "bios"),
        ({"boot_mode": "bios"}, "bios"),
        ({}, "uefi"),
    ],
    ids=["of the instance", "of the instance, as text", "recorded", "by default"],
)
def test_the_partition_table_is_made_for_how_the_instance_boots(
    conf: cfg.ConfigOpts, values: dict[str, object], mode: str
) -> None:
    """The agent reads no capability of instance_info; without a word it goes by its ramdisk."""
    told = about.node(FakeTask(node(**values)))
    assert told["driver_internal_info"]["deploy_boot_mode"] == mode


def test_capabilities_that_differ_keep_no_machine_from_being_cleaned(conf: cfg.ConfigOpts) -> None:
    two = {
        place: {"capabilities": f"boot_mode:{mode}"}
        for place, mode in (("instance_info", "uefi"), ("properties", "bios"))
    }
    assert "deploy_boot_mode" not in about.node(FakeTask(node(**two)))["driver_internal_info"]


def test_no_secret_goes_to_an_agent(conf: cfg.ConfigOpts) -> None:
    secret = "hush-hush"
    told = about.node(
        FakeTask(
            node(
                driver_info={"redfish_password": secret, "ipmi_hex_kg_key": secret},
                instance_info={"configdrive": {"user_data": secret}, "image_url": secret},
                driver_internal_info={
                    "agent_secret_token": secret,
                    "driver_notes": {"served_image": secret},
                    "agent_verify_ca": secret,
                },
            )
        )
    )
    assert secret.encode() not in orjson.dumps(told)
