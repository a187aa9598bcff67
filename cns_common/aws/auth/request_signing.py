"""Signs requests of this service's own clients with AWS Signature Version 4."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from cns_common.aws.auth.canonical_request import (
    ALGORITHM,
    TERMINATOR,
    canonical_path,
    canonical_query,
    canonical_request,
    join_headers,
    request_template,
    signature_of,
    split_query,
)
from cns_common.aws.auth.signature_claim import write_date


class SigningCredential(NamedTuple):
    """An access key, and the region and service that its signatures are scoped to."""

    key_id: str
    secret: str
    region: str
    service: str


def sign(
    *,
    method: str,
    path: str,
    query: str = "",
    headers: Mapping[str, str],
    body: bytes,
    credential: SigningCredential,
    now_ms: int,
) -> dict[str, str]:
    """The headers `x-amz-date` and `authorization` to add to a request. The signature covers all of `headers`, which
    must name the host."""
    date = write_date(now_ms // 1000)
    covered = join_headers([(name.lower().encode(), value.encode()) for name, value in headers.items()])
    covered[b"x-amz-date"] = date.encode()
    names = sorted(covered)
    names_text = b";".join(names)
    scope = f"{date[:8]}/{credential.region}/{credential.service}/{TERMINATOR}"
    request = canonical_request(
        request_template(names, names_text),
        names,
        method.encode(),
        canonical_path(path.encode()),
        canonical_query(split_query(query.encode())),
        covered,
        sha256(body).hexdigest().encode(),
    )
    signature = signature_of(request, credential.secret, date.encode(), scope.encode()).decode()
    claim = f"{ALGORITHM} Credential={credential.key_id}/{scope}"
    return {
        "x-amz-date": date,
        "authorization": f"{claim}, SignedHeaders={names_text.decode()}, Signature={signature}",
    }
