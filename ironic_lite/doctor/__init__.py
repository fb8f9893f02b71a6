"""Checks of the service and of single machines, for ``GET /v1/doctor`` and the command.

::

    rounds       runs tables of checks beside each other, within a time limit
    api          the checks of an API process
    conductor    the checks of a conductor
    node         the checks of one node, made by its conductor
    database, disk, programs, certificates, options, servers, tftp
                 what the tables consist of

``domain.examination`` has the types. The API imports neither ``conductor`` nor ``node``, because
they load drivers.
"""
