"""The driver contract, which `drivers.base` re-exports.

``driver`` has the kinds of interfaces and imports their base ``interface``, which imports ``task``.
A task refers to its driver, so ``task`` imports ``driver`` for the type checker only.
"""
