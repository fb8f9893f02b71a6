"""One story per verb: what happens to a node, in the order in which it happens."""
