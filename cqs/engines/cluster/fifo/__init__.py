"""FIFO queues of the engine `cqs`: a log of commands in Cassandra, all of which each process applies.

The order, groups, deduplication and leases of a queue are one small state, changed by commands (`commands`, `state`). A
process appends a command to the queue's log by a conditional write (`log`); a process that loses the race applies the
winner's commands and tries the next slot. Bodies are rows beside the log, written before the command that names them.
Redis only carries hints that a queue has changed. ADR 0007 has the reasons.
"""
