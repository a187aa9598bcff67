"""The portal at `/portal`: pages for the owner of an endpoint, opened by a signed link."""
