"""Background work by owner: each queue is looked after by one of the live processes."""
