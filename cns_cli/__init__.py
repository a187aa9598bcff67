"""The words of `cns`, a file a noun: options and help alone, so that `cns --help` loads nothing of the service.

`*_actions.py` beside them have what a command does, imported when it runs.
"""
