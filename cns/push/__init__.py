"""Mobile push: platform applications and their endpoints, one for each device."""
