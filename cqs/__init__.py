"""CQS: a queue service that speaks the Amazon SQS API."""
