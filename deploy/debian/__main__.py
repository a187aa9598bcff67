"""The command line: builds build/debian/cns_VERSION_ARCH.deb from the wheel in build/dist."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from deploy.debian.package import ROOT, Build
from deploy.servers.failure import Failure

EXIT_FAILED = 1


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.debian", description="The Debian package.")
    parser.add_argument("--wheel", type=Path, help="default: the one in build/dist")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "debian", help="it is emptied")
    parser.add_argument("--locks", nargs="+", default=["core", "cluster"], help="of requirements/; core is needed")
    parser.add_argument("--date", type=int, default=0, help="seconds since 1970 of all files")
    parser.add_argument("--maintainer", default="root <root@localhost>", help="Name <address>")
    given = parser.parse_args(words)
    os.umask(0o022)  # the directories are of the package, whose users read them
    try:
        wheels = [given.wheel] if given.wheel else sorted((ROOT / "build" / "dist").glob("cns_cqs-*.whl"))
        if not wheels:
            raise Failure("there is no wheel in build/dist: make wheel")
        build = Build(
            wheel=wheels[-1],
            tools=Path(sys.executable).parent,
            work=given.work,
            locks=given.locks,
            source_date_s=given.date,
            maintainer=given.maintainer,
        )
        print(build.run())
    except Failure as failure:
        print(f"debian: {failure}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
