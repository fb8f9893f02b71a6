"""SQL statements, one module a resource."""
