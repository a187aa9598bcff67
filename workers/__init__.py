"""The processes: producer, consumer, delivery pools, upkeep, and the `cns` command that starts and watches them."""
