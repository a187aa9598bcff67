"""The transforms of the audit: frame to frame, one subject a file."""
