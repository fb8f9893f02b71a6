"""RAID volumes on the controllers of a BMC."""
