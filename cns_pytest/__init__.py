"""A pytest plugin that starts the real service for the tests of other projects: docs/testing.md.

Nothing of the service is imported before a test asks for it, and its processes run with a safe path: a project's own
`workers` and `common` packages are never taken for the service's, nor the other way round.
"""
