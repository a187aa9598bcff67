"""The processes of the service, and the commands that run them."""
