"""Checks of the service and of single machines, each a row of a table.

::

    examiner     runs checks beside each other, within a time limit
    start        what each program checks at its start
    database, machine
                 what tables of checks consist of

``domain.examination`` has the types. The feature ``doctor`` and ``cmd.status`` have the tables.
"""
