"""Checks of the endpoint as a client sees it: what answers, and whether it accepts the keys and the clock."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import botocore.session
import httpx
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cns.delivery.failure_causes import why_failed
from cns.endpoints.outcome import Cause
from cns_backend.metrics_token import CHALLENGE, request_headers
from cns_backend.urls import address_of
from cns_cli.doctor.findings import CheckResult, Level, ok, problem, warning
from cns_cli.overview.metrics import HOW_TO_SEE, SAME_SETTINGS, MetricsPage, ServiceUnreachable, other_store, read_page
from cns_cli.remote.connection import StoredProfile
from cns_common.configuration.settings import Settings
from cns_common.metrics.catalogue import BUILD_INFO

TIMEOUT_S = 5.0
SKEW_WARNED_S = 60
SKEW_REFUSED_S = 15 * 60
"""The service refuses signatures whose time differs by more."""
_LEVELS: dict[str, Level] = {"green": "ok", "yellow": "warning", "red": "problem"}


@dataclass(slots=True)
class EndpointAnswer:
    """The findings about the endpoint; `is_cns` if a CNS answered."""

    findings: list[CheckResult] = field(default_factory=list)
    is_cns: bool = False


def check_endpoint(settings: Settings, client: StoredProfile, *, named: bool) -> EndpointAnswer:
    """`client`: the URL, which may be empty, and keys of the caller. `named`: an option gives the URL."""
    url = (client.url or address_of(settings).url).rstrip("/")
    answer = EndpointAnswer()
    try:
        with httpx.Client(
            headers=request_headers(settings, url, named=named), timeout=TIMEOUT_S, verify=_trusted(settings)
        ) as asking:
            health, metrics = asking.get(f"{url}/health"), asking.get(f"{url}/metrics")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        answer.findings.append(problem("endpoint", f"{url} does not answer: {error}", _mend(url, str(error))))
        return answer
    is_hidden = metrics.headers.get("www-authenticate") == CHALLENGE
    try:
        page = read_page(metrics.text)
    except ServiceUnreachable:
        page = MetricsPage({})
    version = page.label(BUILD_INFO, "version")
    if not version and not is_hidden:
        text = f"{url} answers, but is no CNS (GET /metrics: {metrics.status_code})"
        answer.findings.append(problem("endpoint", text, "name the service with --url or AWS_ENDPOINT_URL"))
        return answer
    answer.is_cns = True
    if is_hidden:
        answer.findings.append(warning("endpoint", f"{url} answers, but no details without its token", HOW_TO_SEE))
    else:
        answer.findings.append(ok("endpoint", f"{url} answers, {page.form} form, version {version}"))
        if other := other_store(settings, page):
            answer.findings.append(warning("settings", other, SAME_SETTINGS))
    answer.findings.append(_health(health))
    answer.findings.append(_clock(health))
    answer.findings += _client(settings, client, url)
    return answer


def _trusted(settings: Settings) -> Any:
    trusted = settings.tls_cert or settings.ca_bundle
    return True if trusted is None else str(trusted)


def _mend(url: str, error: str) -> str:
    if "CERTIFICATE" in error.upper():
        return "trust its certificate: SSL_CERT_FILE, AWS_CA_BUNDLE and CNS_CA_BUNDLE name a PEM file"
    if "SSL" in error.upper():
        return f"it may not speak TLS: try {url.replace('https:', 'http:', 1)}"
    return "start it with `cns up`, or name another with --url or AWS_ENDPOINT_URL"


def _health(response: httpx.Response) -> CheckResult:
    try:
        report: dict[str, Any] = response.json()
    except ValueError:
        return problem("health", f"GET /health is no JSON (status {response.status_code})", "see the service's log")
    level = _LEVELS.get(str(report.get("status")), "problem")
    reasons = "; ".join(report.get("reasons", ()))
    text = f"{report.get('status')}{': ' if reasons else ''}{reasons}"
    return CheckResult(
        "health", level, text, "" if level == "ok" else "docs/operations/monitoring.md says what to do for each reason"
    )


def _clock(response: httpx.Response) -> CheckResult:
    try:
        sent = parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return ok("clock", "the answer has no Date header")
    skew_s = time.time() - sent  # noqa: TID251  # the machine's own clock, which signs, is what is checked
    if abs(skew_s) < SKEW_WARNED_S:
        return ok("clock", "this machine's and the service's agree")
    text = f"this machine is {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the service"
    mend = "set the clock: `timedatectl set-ntp true`"
    return problem("clock", text, mend) if abs(skew_s) >= SKEW_REFUSED_S else warning("clock", text, mend)


def _client(settings: Settings, client: StoredProfile, url: str) -> list[CheckResult]:
    found = []
    if not client.url:
        text = "AWS_ENDPOINT_URL is not set: AWS clients would call AWS itself"
        found.append(warning("client", text, f"export AWS_ENDPOINT_URL={shlex.quote(url)}"))
    if not client.region:
        text = "no region is set, which AWS clients want"
        found.append(warning("client", text, f"export AWS_REGION={address_of(settings).region}"))
    if not client.key_id:
        text = "no access key is set" + (", the token of the profile is not checked" if client.token else "")
        mend = "export the lines that `cns up` printed at its first start, or those of `cns account create`"
        found.append(warning("keys", text, mend))
    else:
        found += _keys(settings, client, url)
    return found


def _aws(service: str, settings: Settings, client: StoredProfile, url: str) -> Any:
    return botocore.session.Session().create_client(
        service,
        region_name=client.region or address_of(settings).region,
        endpoint_url=url,
        aws_access_key_id=client.key_id,
        aws_secret_access_key=client.secret,
        aws_session_token=os.environ.get("AWS_SESSION_TOKEN"),  # noqa: TID251  # a variable of AWS SDKs, no setting
        verify=_trusted(settings),
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S),
    )


def _keys(settings: Settings, client: StoredProfile, url: str) -> list[CheckResult]:
    """Whether the service accepts a call that the key signed, and whether its account is in the SMS sandbox."""
    try:
        caller = _aws("sts", settings, client, url).get_caller_identity()
    except ClientError as error:
        code, text = error.response["Error"]["Code"], error.response["Error"]["Message"]
        return [problem("keys", f"{client.key_id} is refused: {code}: {text}", _key_mend(code, text))]
    except BotoCoreError as error:
        return [problem("keys", f"{client.key_id} could not be tried: {error}", "see the line above")]
    accepted = ok("keys", f"{client.key_id} is accepted as {caller['Arn']}")
    try:
        in_sandbox = _aws("sns", settings, client, url).get_sms_sandbox_account_status()["IsInSandbox"]
    except (ClientError, BotoCoreError):  # a user who may not ask
        return [accepted]
    text = "the SMS sandbox is on: only verified phone numbers get messages, what is sent to others is dropped"
    return [accepted, *[warning("sandbox", text, why_failed(Cause.NOT_VERIFIED).advice)] * in_sandbox]


def _key_mend(code: str, text: str) -> str:
    if "expired" in text or "not yet current" in text:
        return "set the clock: `timedatectl set-ntp true`"
    if code == "InvalidClientTokenId":
        return "`cns account list` shows this service's keys; `cns account create` makes one"
    return "AWS_SECRET_ACCESS_KEY does not belong to this key: `cns account user add ACCOUNT NAME` makes another one"
