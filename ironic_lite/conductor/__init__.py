"""The conductor: the process that changes nodes and talks to their machines.

Its modules; each uses those below it::

    service               starts and stops all parts
    allocations           search of nodes for allocations
    endpoints | watch     the calls of API processes; periodic sweeps and timers
    tasks                 takes and releases node locks, makes and ends tasks
    flows                 one module per activity: start, plan, work, failure; verbs finds it
    engine                work on nodes, and the lists of steps that it runs:
      stepper               runs a list of steps, and ends or continues it
      lists, execution      lists that a node offers or a request names; one step
      task                  one piece of work on one node: the only writer of the node's state
      history               the node's runs and events, written with it
      runtime, workers, locks, notes
                            what all work shares

Begin with ``flows/clean``, then ``engine/stepper`` and ``engine/task``. ``docs/flow.rst`` follows
one request through all of them.
"""
