"""`cns explain`: asks `cns_backend.explain`, and prints the answer."""
