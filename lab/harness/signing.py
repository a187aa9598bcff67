"""Signed HTTP requests as bytes, made cheaply: the generator shares the machine with the server."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

JSON_TYPE = "application/x-amz-json-1.0"
FORM_TYPE = "application/x-www-form-urlencoded; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    key_id: str
    secret: str
    region: str = "us-east-1"


class Signer:
    """SigV4 for one service at one host. Parts that are the same within a second are computed once per second."""

    def __init__(self, credentials: Credentials, service: str, host: str) -> None:
        self._credentials = credentials
        self._service = service
        self._host = host
        self._second = -1
        self._moment = self._scope = ""
        self._key = b""

    def call(self, operation: str, body: bytes, at_s: int | None = None) -> bytes:
        """A call of the JSON 1.0 protocol."""
        return self._request(JSON_TYPE, f"AmazonSQS.{operation}", body, at_s)

    def form(self, body: bytes, at_s: int | None = None) -> bytes:
        """A call of the Query protocol."""
        return self._request(FORM_TYPE, "", body, at_s)

    def _request(self, content_type: str, target: str, body: bytes, at_s: int | None) -> bytes:
        now_s = int(time.time()) if at_s is None else at_s
        if now_s != self._second:
            self._turn_second(now_s)
        target_signed, target_line = (f"x-amz-target:{target}\n", f"X-Amz-Target: {target}\r\n") if target else ("", "")
        names = "content-type;host;x-amz-date;x-amz-target" if target else "content-type;host;x-amz-date"
        canonical = (
            f"POST\n/\n\ncontent-type:{content_type}\nhost:{self._host}\nx-amz-date:{self._moment}\n{target_signed}"
            f"\n{names}\n{sha256(body).hexdigest()}"
        )
        text = f"AWS4-HMAC-SHA256\n{self._moment}\n{self._scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key, text.encode(), "sha256").hex()
        head = (
            f"POST / HTTP/1.1\r\nHost: {self._host}\r\n{target_line}Content-Type: {content_type}\r\n"
            f"X-Amz-Date: {self._moment}\r\nAuthorization: AWS4-HMAC-SHA256 "
            f"Credential={self._credentials.key_id}/{self._scope}, SignedHeaders={names}, Signature={signature}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def _turn_second(self, now_s: int) -> None:
        self._second = now_s
        self._moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
        day = self._moment[:8]
        self._scope = f"{day}/{self._credentials.region}/{self._service}/aws4_request"
        key = f"AWS4{self._credentials.secret}".encode()
        for part in (day, self._credentials.region, self._service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        self._key = key


class QuerySigner(Signer):
    """Signs the calls of queues as the Query protocol has them."""

    def call(self, operation: str, body: bytes, at_s: int | None = None) -> bytes:
        members = dict(_flat(operation, json.loads(body)))
        return self.form(urlencode({"Action": operation, "Version": "2012-11-05", **members}).encode(), at_s)


def _flat(operation: str, members: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """The members with the names that the Query protocol gives to the parts of maps and lists."""
    for name, value in members.items():
        if isinstance(value, dict):
            for number, pair in enumerate(value.items(), 1):
                yield from zip((f"Attribute.{number}.Name", f"Attribute.{number}.Value"), pair, strict=True)
        elif name == "Entries":
            for number, entry in enumerate(value, 1):
                yield from ((f"{operation}RequestEntry.{number}.{part}", text) for part, text in entry.items())
        elif isinstance(value, list):
            yield from ((f"{name.removesuffix('s')}.{number}", text) for number, text in enumerate(value, 1))
        else:
            yield name, value
