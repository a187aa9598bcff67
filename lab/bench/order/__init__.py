"""Message order, loss and duplicates, as the paper of ADR 0016 measures them: the load, and audits of large logs."""
