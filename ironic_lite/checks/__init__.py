"""Checks of the service and of single machines, each a row of a table.

::

    examiner     runs checks beside each other, within a time limit
    api          the checks of an API process
    conductor    the checks of a conductor
    node         the checks of one node, made by its conductor
    start        what each program checks at its start
    database, machine, servers
                 what the tables consist of

``domain.examination`` has the types. The API imports neither ``conductor`` nor ``node``, because
they load drivers.
"""
