"""CNS: a notification service that speaks the Amazon SNS API, layered on CQS."""

__version__ = "0.2.0"
