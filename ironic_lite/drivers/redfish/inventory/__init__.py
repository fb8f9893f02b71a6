"""The inventory of a machine as its BMC reports it."""
