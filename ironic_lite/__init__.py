"""A bare-metal provisioning service: Ironic's wire, durable runs, two small processes."""
