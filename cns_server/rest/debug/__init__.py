"""The debug views of queues, for operators and the account's root (seed 001). They read only."""
