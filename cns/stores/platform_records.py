"""The stored form of platform applications: encrypted, because they contain credentials."""

from __future__ import annotations

import msgspec

from cns.push.model import PlatformApplication
from cns_common.sealing import Seal

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PlatformApplication).decode


class PlatformRecords:
    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def close(self, application: PlatformApplication) -> bytes:
        return self._seal.close(application.arn, _encode(application))

    def open(self, arn: str, sealed: bytes) -> PlatformApplication:
        return _decode(self._seal.open(arn, sealed))
