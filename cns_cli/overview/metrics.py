"""Reads the metrics page and the health of a running service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from cns_backend.metrics_token import CHALLENGE, request_headers
from cns_backend.urls import address_of
from cns_common.configuration.settings import Settings
from cns_common.metrics.catalogue import STORE_COMMITS
from cns_common.metrics.model import Metric

TIMEOUT_S = 10.0
_MEMBERS = {"status", "ready", "reasons", "processes", "workers"}
"""The names in the health of each form."""
_WITHOUT_TOKEN = {"status", "ready"}
HOW_TO_SEE = (
    "set CNS_METRICS_TOKEN as the service has it, which other machines are sent over https only, "
    "or run the command with its data directory"
)
SAME_SETTINGS = "export CNS_STORE, CNS_CASSANDRA and CNS_REDIS as the service has them"
_Labels = tuple[tuple[str, str], ...]


class ServiceUnreachable(Exception):
    """The health or metrics of the service cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """One metrics page. Samples of several processes are summed, or the greatest counts."""

    samples: Mapping[str, Mapping[_Labels, float]]

    def total(self, metric: Metric, **labels: str) -> float:
        wanted = set(labels.items())
        return sum(value for at, value in self.samples.get(metric.name, {}).items() if wanted <= set(at))

    def by(self, metric: Metric, label: str, *, greatest: bool = False, **labels: str) -> dict[str, float]:
        """The values by one label, over all processes."""
        wanted, found = set(labels.items()), defaultdict[str, list[float]](list)
        for at, value in self.samples.get(metric.name, {}).items():
            if wanted <= set(at):
                found[dict(at).get(label, "")].append(value)
        return {name: max(values) if greatest else sum(values) for name, values in found.items()}

    def label(self, metric: Metric, label: str) -> str:
        """A value of a label; '' without a sample."""
        return next((dict(at).get(label, "") for at in self.samples.get(metric.name, {})), "")

    @property
    def form(self) -> str:
        """The form of the service: embedded or cluster."""
        return "embedded" if self.samples.get(STORE_COMMITS.name) else "cluster"


class ServiceReader:
    """Reads over HTTP. The default URL is that of the settings, else of the last start from the data directory."""

    def __init__(self, settings: Settings, url: str) -> None:
        self.url = (url or address_of(settings).url).rstrip("/")
        self._headers = request_headers(settings, self.url, named=bool(url))
        trusted = settings.tls_cert or settings.ca_bundle
        self._verify: Any = True if trusted is None else str(trusted)

    def health(self) -> dict[str, Any]:
        """Without the token of the service, only status and readiness are known."""
        try:
            report = self._get("/health").json()
        except ValueError:
            report = None
        if isinstance(report, dict) and report.keys() == _WITHOUT_TOKEN:
            return {"reasons": [], "processes": [], "workers": [], **report}
        if not (isinstance(report, dict) and report.keys() >= _MEMBERS):
            raise ServiceUnreachable(f"{self.url} is no CNS")
        return report

    def page(self) -> MetricsPage:
        answer = self._get("/metrics")
        if answer.headers.get("www-authenticate") == CHALLENGE:
            raise ServiceUnreachable(f"{self.url} shows its metrics only with its token: {HOW_TO_SEE}")
        return read_page(answer.text)

    def _get(self, path: str) -> httpx.Response:
        try:
            return httpx.get(f"{self.url}{path}", headers=self._headers, timeout=TIMEOUT_S, verify=self._verify)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # the last of a host that is no name
            raise ServiceUnreachable(f"{self.url} does not answer: {error}") from None


def other_store(settings: Settings, page: MetricsPage) -> str:
    """Why the store of these settings is not that of the service; '' if it may be."""
    if (page.form == "embedded") == (settings.store == "embedded"):
        return ""
    return (
        f"the service is of the {page.form} form, but CNS_STORE is {settings.store} here: commands read another store"
    )


def read_page(text: str) -> MetricsPage:
    samples: dict[str, dict[_Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    except ValueError:
        raise ServiceUnreachable("what answers is no CNS: its metrics cannot be read") from None
    return MetricsPage(samples)
