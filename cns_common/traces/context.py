"""Trace contexts as text: W3C `traceparent`, and AWS's `X-Amzn-Trace-Id`, which queues carry as AWSTraceHeader."""

from __future__ import annotations

import re
from collections.abc import Mapping

TRACEPARENT = "traceparent"
XRAY_CHARS_MAX = 500
"""SQS has a limit of this order; longer ones are not read."""
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?", re.ASCII)
_XRAY_ROOT = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})", re.ASCII)
_XRAY_PARENT = re.compile(r"[0-9a-f]{16}", re.ASCII)
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16
_SAMPLED = 1


def read_traceparent(text: str) -> str:
    """The context in the version that this service writes; '' if it is not valid."""
    found = _TRACEPARENT.fullmatch(text.strip()) if len(text) <= XRAY_CHARS_MAX else None
    if found is None or found[1] == _NO_TRACE or found[2] == _NO_SPAN or (text.startswith("00") and found[0][55:]):
        return ""
    return traceparent(found[1], found[2], sampled=bool(int(found[3], 16) & _SAMPLED))


def read_xray(text: str) -> str:
    """`Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1` as traceparent; '' if it has no
    parent."""
    if len(text) > XRAY_CHARS_MAX:
        return ""
    fields = dict(part.strip().partition("=")[::2] for part in text.split(";"))
    root, parent = _XRAY_ROOT.fullmatch(fields.get("Root", "")), fields.get("Parent", "")
    if root is None or not _XRAY_PARENT.fullmatch(parent) or parent == _NO_SPAN:
        return ""
    return traceparent(root[1] + root[2], parent, sampled=fields.get("Sampled") == "1")


def write_xray(context: str) -> str:
    """The value of AWSTraceHeader for a traceparent."""
    _, trace, span, _ = context.split("-")
    return f"Root=1-{trace[:8]}-{trace[8:]};Parent={span};Sampled={int(is_sampled(context))}"


def traceparent(trace_id: str, span_id: str, *, sampled: bool) -> str:
    return f"00-{trace_id}-{span_id}-{'01' if sampled else '00'}"


def is_sampled(context: str) -> bool:
    """Whether spans of this context are recorded; false for ''."""
    return context.endswith("1")


def context_in(headers: Mapping[bytes, bytes]) -> str:
    """The caller's context in the headers of its request, in lower case; '' without one."""
    found = headers.get(b"traceparent")
    if found is not None:
        return read_traceparent(found.decode("latin-1"))
    found = headers.get(b"x-amzn-trace-id")
    return "" if found is None else read_xray(found.decode("latin-1"))
