# Generated from cns/client/async_calls by `make format`: change it there.
"""The calls of the REST API, for threads."""
