"""Shared by all other packages: settings, clock, errors, the store's kernel, the AWS front door."""
