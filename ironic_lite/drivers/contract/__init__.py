"""The driver contract, in one module per group of interfaces; `drivers.base` re-exports it.

``driver`` imports the groups, they import ``interface``, and it imports ``task``. A task refers to
its driver, so ``task`` imports ``driver`` for the type checker only.
"""
