"""What is stored of queues, for operators and the account's root (seed 001): nothing is changed by looking."""
