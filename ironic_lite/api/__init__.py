"""The HTTP API. Its parts, importing modules before imported ones::

    server         the event loop of a process that listens
    app            builds the application from all other parts
    middleware     entry of every request and exit of every answer
    controllers    one module a subject: the handlers of its requests, their checks, their documents
    openapi        the OpenAPI document, generated from the tables that handlers use
    resources      what many controllers share: pages, queries, patches, look-ups, waits
    health         liveness and readiness probes, metrics
    auth           login checks
    validation     checks of values and bodies in requests
    http           one request, its route, its answer; limits; waits and streams of events
    service        the objects every controller uses, the way to the conductor of a node
    policy         access rules

Read ``controllers/provisioning`` first, then ``http/expose``.
"""
