"""CNS: a notification service that speaks the Amazon SNS API, layered on CQS."""
