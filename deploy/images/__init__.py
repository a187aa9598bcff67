"""Builds images from Debian's packages, for machines without an image registry: `python3 -m deploy.images`."""
