"""Work on nodes: tasks, locks, leases and what all work shares."""
