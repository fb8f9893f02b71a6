"""A hardware manager for ironic-python-agent that reports how each disk was erased.

``commands`` classifies the programs that ran, ``samples`` reads the disk before and after,
``devices`` reads serial numbers and hidden areas, ``purge`` runs the sanitize commands of disks,
``report`` joins the facts, ``manager`` is what the agent loads. Only ``manager`` imports the agent.
"""
