"""The composed cluster as an operator brings it up: `make compose-test`, on a machine with podman and its compose."""
