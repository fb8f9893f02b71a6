"""How much comes in at once, how long it may take, and how a process ends without loss."""
