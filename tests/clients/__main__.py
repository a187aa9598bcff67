"""`make install-programs`: installs and builds all clients."""

from __future__ import annotations

import sys

from deploy.servers.failure import Failure
from tests.clients.installing import ALL, installed

if __name__ == "__main__":
    try:
        for each in ALL:
            installed(each)
    except (AssertionError, Failure) as failure:
        sys.exit(f"clients: {failure}")
