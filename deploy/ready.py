"""The image's health check: exit code 0 if the service in this container is ready."""

from __future__ import annotations

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

ANSWER_S = 4.0


def main() -> int:
    port = int(os.environ.get("CNS_PORT") or 6059)
    if os.environ.get("CNS_TLS_CERT"):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the certificate does not name 127.0.0.1
        connection: HTTPConnection = HTTPSConnection("127.0.0.1", port, timeout=ANSWER_S, context=context)
    else:
        connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/ready")
        answer = connection.getresponse()
    except (OSError, HTTPException) as error:
        print(error)
        return 1
    print(answer.read().decode())
    return 0 if answer.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
