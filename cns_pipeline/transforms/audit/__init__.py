"""The transforms of the audit, from frame to frame, by subject."""
