"""The command line: builds a release into build/release, and says how to sign it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cns
from deploy.release.build import ROOT, Release
from deploy.servers.failure import Failure

EXIT_FAILED = 1
NEXT = """
Sign SHA256SUMS by one of these, and publish the signature beside it:
  gpg --armor --detach-sign SHA256SUMS                 # SHA256SUMS.asc
  minisign -Sm SHA256SUMS                              # SHA256SUMS.minisig
  cosign sign-blob --bundle SHA256SUMS.bundle SHA256SUMS
Tag the commit: git tag -s v{version}. CONTRIBUTING.md says the rest; docs/security.md how users verify.
"""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description="The files of a release.")
    parser.add_argument("--target", type=Path, default=ROOT / "build" / "release", help="it is emptied")
    parser.add_argument("--bills", type=Path, default=ROOT / ".venv" / "tools" / "sbom", help="where cyclonedx-py is")
    parser.add_argument("--unreleased", action="store_true", help="to try: the notes are those of Unreleased")
    given = parser.parse_args(words)
    target, bills = given.target.absolute(), given.bills.absolute()
    release = Release(version=cns.__version__, target=target, bills=bills, unreleased=given.unreleased)
    try:
        for path in release.run():
            print(f"{path.stat().st_size:>12,}  {path}")
    except Failure as failure:
        print(f"release: {failure}", file=sys.stderr)
        return EXIT_FAILED
    print(NEXT.format(version=release.version), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
