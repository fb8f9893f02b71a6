"""One module a resource; ``ALL`` lists the controllers that `app.build` serves."""

from __future__ import annotations

from ironic_lite.api import expose
from ironic_lite.api.controllers import maintenance, management, nodes, root, states

ALL: tuple[type[expose.Controller], ...] = (
    root.Root,
    nodes.Nodes,
    states.States,
    maintenance.Maintenance,
    management.Management,
)
