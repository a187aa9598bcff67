"""The roles of a worker: the parts of its work that may run in processes of their own."""
