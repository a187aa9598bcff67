"""FIFO queues of the engine `cqs`: a log of commands in Cassandra is the truth, and every process folds it alike.

A queue's order, groups, deduplication and leases are one small state, changed by commands (`commands`, `state`). What
is done is appended to the queue's log by a conditional write (`log`); whoever loses the race applies what the winner
wrote and tries the next slot. Bodies are rows beside it, written before the command that names them. Redis only hints
that there is something new. ADR 0007 says why.
"""
