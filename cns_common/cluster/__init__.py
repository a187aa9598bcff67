"""Tells a process of a cluster whether it may act (`Lease`), which others live (`Membership`), and by which decision
all of them act (`View`)."""
