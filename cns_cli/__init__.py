"""The command line: `main` has the table of commands, and each command or group of commands has a module."""
