"""From frame to frame, one to a file: no session, no reading, no writing, no collecting."""
