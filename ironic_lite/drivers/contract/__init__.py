"""The contract with drivers, by groups of interfaces. Drivers import ``drivers.base``, which offers
all of it under one name.

``driver`` knows the groups, those know ``interface``, and that knows ``task``. A task gives its
driver, so that ``task`` speaks of ``driver``: to the type checker alone, nothing is imported.
"""
