"""Writes the pages of the site into build/site-docs."""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy.site.pages import ROOT, page_of, sources
from deploy.site.reference import REFERENCE

TARGET = ROOT / "build" / "site-docs"


def main(target: Path = TARGET) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for source, name in sources().items():
        written = target / name
        written.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            written.write_text(page_of(source))
        else:
            shutil.copy(source, written)
    for name, make in REFERENCE.items():
        written = target / "reference" / f"{name}.md"
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(make())


if __name__ == "__main__":
    main()
