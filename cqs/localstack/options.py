"""In what the SQS API may be spoken as LocalStack speaks it: chosen at the start, for all calls."""

from __future__ import annotations

from dataclasses import dataclass

from cqs.authorization import ReadAddress
from cqs.localstack.url_styles import UrlStyle, WriteUrl, url_writer
from cqs.queues.urls import addressed_queue, queue_in_named_region, queue_url


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStackOptions:
    """As it stands: SQS's own."""

    write_url: WriteUrl = queue_url
    address: ReadAddress = addressed_queue
    receive_overrides: bool = False


def localstack_options(style: UrlStyle, domain: str = "", *, localstack: bool) -> LocalStackOptions:
    """`style` and `domain` as for `url_writer`."""
    return LocalStackOptions(
        write_url=url_writer(style, domain),
        address=queue_in_named_region if localstack else addressed_queue,
        receive_overrides=localstack,
    )
