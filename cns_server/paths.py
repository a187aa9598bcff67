"""The beginnings of paths beside those of the AWS protocols."""

REST_PREFIX = "/api/v1"
PAGES_PREFIX = "/ui"
PORTAL_PREFIX = "/portal"
ADMIN_PATH = "/ADMIN"
"""The path of the original CQS (seed 000)."""
