"""RPC endpoints: each method locks, checks, moves the node and hands over."""
