"""Images for machines that reach no image registry, made of Debian's packages: `python3 -m deploy.images`."""
