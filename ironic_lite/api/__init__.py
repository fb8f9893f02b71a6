"""What answers HTTP. Its parts, those that use others first::

    server, wsgi   a process that listens; the same for any other WSGI server
    app            puts all of it together
    front          where every request enters and every answer leaves
    controllers    one module per family of paths: what its requests do
    openapi        the document of all of them, made from the tables they work by
    resources      what controllers share: to show, list and change what the database holds
    health         does it live, can it work, what has it done
    login          who asks
    traffic        how much comes in at once, how long it may take, and how a process ends
    validation     what the values and bodies of requests must be like
    wire           one request, its route, its answer
    service        what every controller works with; fleet, reach: conductors and calling them
    policy         who may do what

Begin with ``controllers/states``, then ``wire/expose`` and ``resources/provisioning``.
"""
