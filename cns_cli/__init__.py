"""The words of `cns`, a file a noun: options and help alone, so that `cns --help` loads nothing of the service.

What a command does is in `workers/*_commands.py`, and imported when it runs.
"""
