"""One request on its way: its route, its body and query, its answer, its refusal."""
