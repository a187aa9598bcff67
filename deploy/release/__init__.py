"""A release: source, wheel, Debian package, bills of materials, notes and checksums of one commit."""
