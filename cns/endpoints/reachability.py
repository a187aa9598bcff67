"""Whether something listens at an HTTP(S) endpoint at the moment when it is subscribed."""

from __future__ import annotations

import asyncio
import errno
import socket
from urllib.parse import urlsplit

from cns.endpoints.address_guard import AddressGuard, AddressRefused
from cns.endpoints.connect import ProxyFailed, connect_to_allowed
from cns.endpoints.egress import Connector
from cns_common.configuration.proxy_url import EgressProxy

REACH_TIMEOUT_S = 3.0
"""The longest time that Subscribe waits for an answer, after the guard's own look-up of the name.
Silence is no refusal: the subscription is pending."""
_PORTS = {"http": 80, "https": 443}
_NO_NAME = (socket.EAI_NONAME, socket.EAI_NODATA)
_REFUSED = (errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH, None)
"""None is of several addresses that failed in several ways. Others, such as EMFILE, are faults of this machine."""


async def is_unreachable(guard: AddressGuard, url: str, *, proxy: EgressProxy | None = None) -> bool:
    """Whether the name does not exist, or the addresses that the guard allows refuse connections. An egress proxy that
    does not reach them proves neither."""
    attempt = asyncio.ensure_future(
        _connect(guard, url, proxy)
    )  # a call of the API is no task, which a timeout would need
    try:
        await asyncio.wait([attempt], timeout=REACH_TIMEOUT_S)
        if attempt.done():
            attempt.result()
    except socket.gaierror as error:
        return error.errno in _NO_NAME
    except UnicodeError:
        return True
    except (AddressRefused, ProxyFailed, TimeoutError):
        return False
    except OSError as error:
        return error.errno in _REFUSED
    finally:
        attempt.cancel()
    return False


async def _connect(guard: AddressGuard, url: str, proxy: EgressProxy | None) -> None:
    parts = urlsplit(url)
    port = parts.port or _PORTS[parts.scheme]
    if proxy is not None:
        deadline_s = asyncio.get_running_loop().time() + REACH_TIMEOUT_S
        (await Connector(guard, proxy).connect(parts.hostname or "", port, deadline_s)).close()
        return
    found = await asyncio.get_running_loop().getaddrinfo(parts.hostname or "", port, type=socket.SOCK_STREAM)
    (await connect_to_allowed(guard, found)).close()
