"""The notification: one accepted publish."""

from __future__ import annotations

import msgspec

from cns_common.store_keys import Key

Attributes = dict[str, tuple[str, str]]  # name → data type and value as text (base64 for Binary), in publish order


class Notification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One accepted publish with all that its deliveries need. It is stored once."""

    id: Key
    topic_arn: str
    timestamp_ms: int
    texts: dict[str, str]  # 'default', and the texts of MessageStructure=json by protocol
    subject: str | None = None
    attributes: Attributes = {}
    structured: bool = False  # published with MessageStructure=json
    signature_version: str = "1"  # the topic's, at the time of publishing
    sequence_number: str = ""  # FIFO topics only
    message_group_id: str = ""
    message_deduplication_id: str = ""
    trace_header: str = ""  # as AWSTraceHeader in queues
    trace_context: str = ""  # traceparent of its publish; '' without traces
    replayed: bool = False  # sent from the topic's archive

    @property
    def fifo(self) -> bool:
        return self.topic_arn.endswith(".fifo")

    def text_for(self, protocol: str) -> str:
        text = self.texts.get(protocol)
        return self.texts["default"] if text is None else text
