"""The conductor: the process that changes nodes and talks to their machines.

Its modules; each uses those below it::

    service               starts and stops all parts
    endpoints | watch     the calls of API processes; periodic sweeps and timers
    tasks                 takes and releases node locks, makes and ends tasks
    planning              plans of verbs: checks and lists of steps without a change
    flows                 one module per verb, its failure included
    steps                 the engine that runs lists of steps, its lists and its phases
    work.task             one piece of work on one node: the only writer of the node's state
    work                  its parts: driver_view, transaction, run_record, journal, notes,
                          node_ports; and what all work shares: runtime, workers,
                          db_retry, fence, leases, locks, bounds

Begin with ``flows/clean``, then ``steps/stepper`` and ``work/task``. ``docs/flow.rst`` follows one
request through all of them.
"""
