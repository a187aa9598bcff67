"""An HTTP endpoint for tests: it confirms, records and verifies deliveries, and fails on request."""
