"""Recent deliveries and failures, from the events that this machine's processes wrote, and a tester of filters."""
