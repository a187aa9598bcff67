"""Mobile push: platform applications, and the endpoints of devices in them."""
