"""The HTTP API. Its parts, importing modules before imported ones::

    server, wsgi   a process that listens; an entry point for any other WSGI server
    rsgi           requests of the event loop: read bodies, run threads that answer
    app            builds the application from all other parts
    middleware     entry of every request and exit of every answer
    controllers    one module per family of paths, with the handlers of its requests
    openapi        the OpenAPI document, generated from the tables that handlers use
    resources      shared by controllers: show, list and change records of the database
    health         liveness and readiness probes, metrics
    window         the files of the web interface below /ui/
    auth           login checks
    traffic        limits on concurrent requests and on their duration
    validation     checks of values and bodies in requests
    wire           one request, its route, its answer
    service        the objects every controller uses
    routing        the conductor responsible for a node; `failover` calls the next one
    lock_waiters   short waits for a locked node
    policy         access rules

Read ``controllers/states`` first, then ``wire/expose`` and ``resources/provisioning``.
"""
