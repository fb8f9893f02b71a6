"""One HTTP request: its route, its body and query, its answer, its refusal."""
