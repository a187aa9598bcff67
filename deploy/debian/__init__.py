"""The Debian package: the wheel with its own environment in /opt/cns, units, configuration, scripts."""
