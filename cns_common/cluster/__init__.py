"""What processes of a cluster know of one another: whether one may act (`Lease`), which others live (`Membership`), and
by which decision all of them act (`View`)."""
