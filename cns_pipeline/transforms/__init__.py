"""Functions from frame to frame, one per file: no session, no reading, writing or collecting."""
