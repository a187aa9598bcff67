"""Commands about deliveries: pools, logs, endpoints, quarantine, outbox, SMS."""
