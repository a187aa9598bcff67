"""`cns replay`: sends archived messages of a topic again."""
