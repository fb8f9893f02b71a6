"""The process that moves nodes. Its modules, those that use others first::

    service               starts and stops all of it
    endpoints | watch     what callers ask for; what sweeps and timers find
    tasks                 the locks: where a task comes from, and where it ends
    flows                 one story per verb, and how each of them fails
    stepper               the one engine of all lists of steps
    children              a step on other nodes, under their locks
    acts, agents, ...     what the engine and the flows do to one machine
    phases                what differs between the kinds of steps
    task                  one piece of work on one node: the only writer of its state
    journal, notes, ...   what a task writes: history, driver_internal_info, ports
    outage, workers       waiting for the database; the threads

Begin with ``flows/clean``, then ``stepper`` and ``task``; ``docs/flow.rst`` leads through it all.
"""
