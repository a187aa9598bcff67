"""Functions from frame to frame, one subject per file. They open no session, and do no I/O."""
