"""Drivers that work through the agent in a machine's ramdisk (ironic-python-agent)."""
