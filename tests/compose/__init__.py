"""The composed cluster as an operator brings it up: `make test-containers`, with podman and its compose."""
