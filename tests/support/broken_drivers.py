"""Drivers of another project, most of which are broken in one way each."""

from __future__ import annotations

_OUTSIDE = """
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import hardware

class Machine(base.HardwareType):
    supported = {
        "power": ("outside", "fake"),
        "deploy": ("fake",),
        "boot": ("fake",),
        "management": ("redfish", "noop"),
    }

class Strange(base.HardwareType):
    supported = {"wheels": ("round",)}

class Power(hardware.FakePower):
    def get_properties(self):
        return {"outside_key": "Any text. Optional."}

    def check_driver_info(self, driver_info):
        raise errors.InvalidParameter(path="driver_info/outside_key", reason="never right")

class Unfinished(base.Power):
    pass

class Tied(hardware.FakeDeploy):
    @base.clean_step(priority=99.0)
    def scrub(self, task):
        pass

class Restarting(hardware.FakeDeploy):
    @base.deploy_step(priority=0)
    def reboot(self, task):
        pass

def function():
    pass

from ironic_lite import errors
"""
_BROKEN = {
    "missing": "import a_library_nobody_has\n",
    "asserting": "assert False, 'two\\nlines'\n",
    "misspelt": "def f(:\n",
}
POINTS = """
[ironic_lite.hardware.types]
outside = outside:Machine
strange = outside:Strange

[ironic_lite.hardware.interfaces.power]
outside = outside:Power
unfinished = outside:Unfinished
deploying = outside:Tied
function = outside:function
nowhere = outside:Nowhere
missing = missing:Power
asserting = asserting:Power
misspelt = misspelt:Power

[ironic_lite.hardware.interfaces.deploy]
tied = outside:Tied
restarting = outside:Restarting
"""
MODULES = {"outside": _OUTSIDE, **_BROKEN}
