"""The documents: their links lead to files and headings, and the site that is built of them loads nothing elsewhere."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from cns_common.configuration.settings import Settings
from cns_common.metrics.catalogue import METRICS
from deploy.site.pages import page_of, sources
from deploy.site.reference import REFERENCE

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in sources() if path.suffix == ".md")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")


@cache
def anchors(path: Path) -> set[str]:
    """The headings of a page, as links name them."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        file, _, anchor = link.partition("#")
        if ":" in file:
            continue
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def test_every_guide_is_in_the_list_and_in_the_navigation() -> None:
    guides = {path.name for path in (ROOT / "docs" / "guides").glob("*.md")} - {"index.md"}
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "guides" / "index.md").read_text()))
    shown = set(re.findall(r"guides/([\w-]+\.md)", (ROOT / "mkdocs.yml").read_text())) - {"index.md"}
    assert guides == listed == shown


def test_what_a_reader_pastes_asks_nothing() -> None:
    """A question at the terminal would take the next pasted line for its answer."""
    for page in (ROOT / "docs" / "guides").glob("*.md"):
        typed = "".join(re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
        asked = re.findall(r"^cns (?:queue|topic) (?:delete|purge) (?!--yes).*", typed, re.MULTILINE)
        assert not asked, page.name


def test_the_comparison_names_the_rivals() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text()
    named = ("ActiveMQ", "RabbitMQ", "MSMQ", "Kafka", "Amazon SQS", "Azure Queue")  # by seed 001
    for rival in (*named, "LocalStack", "moto", "ElasticMQ", "Svix"):
        assert f"**{rival}" in text, rival


def test_a_page_of_the_site_keeps_links_to_pages_only() -> None:
    text = page_of(ROOT / "README.md")
    assert "](docs/" not in text and "](guide.md)" in text
    assert all(name == "index.md" or not name.startswith("..") for name in sources().values())


def test_the_reference_has_every_setting_metric_and_command() -> None:
    pages = {name: make() for name, make in REFERENCE.items()}
    assert all(f"`CNS_{name.upper()}`" in pages["settings"] for name in Settings.model_fields)
    assert all(f"`{name}`" in pages["metrics"] for name in METRICS)
    sqs, sns = re.split(r"^## ", pages["operations"], flags=re.MULTILINE)[1:3]
    assert (sqs.count("\n| `"), sns.count("\n| `")) == (23, 42)
    assert "## cns queue send" in pages["commands"] and "`--test-clock`" in pages["commands"]
    assert "## delivery.attempted" in pages["events"] and "`duration_ms`" in pages["events"]


STRANGER = re.compile(r"""pipx? install (-\S+ )*['"]?cns(\[[\w,]+\])?['"]?(?![\w-])""")
"""The public index has a package `cns` of somebody else; ours is `cns-cqs`."""


def test_no_text_says_to_install_a_package_of_a_stranger() -> None:
    assert all(STRANGER.search(text) for text in ("pip install cns", "`pip install 'cns[otel]'`", "pipx install cns\n"))
    assert not any(STRANGER.search(text) for text in ("pip install cns-cqs", "pip install build/dist/cns_cqs-1.whl"))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    own = str(Path(__file__).relative_to(ROOT))
    for name in [name for name in listed.stdout.split("\0") if name != own and (ROOT / name).is_file()]:
        assert not STRANGER.search((ROOT / name).read_text(errors="replace")), name


@pytest.mark.extended
def test_the_site_is_built_without_warnings_and_loads_nothing_elsewhere() -> None:
    done = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted((ROOT / "build" / "site").rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]* src=\"?([^\" >]+)", page.read_text())
        links = re.findall(r"<link[^>]*>", page.read_text())
        loaded += [re.findall(r"href=\"?([^\" >]+)", link)[0] for link in links if "canonical" not in link]
        assert loaded and not [url for url in loaded if re.match(r"(https?:)?//", url)], page
    for style in (ROOT / "build" / "site").rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?https?:", style.read_text()), style
