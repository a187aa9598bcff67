"""The calls of the REST API, for asyncio."""
