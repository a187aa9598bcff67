"""Commands that show the whole service: `cns status`, `cns top`, `cns version`."""
