"""The command line: builds missing or named images, and prints the lines for the file `.env`."""

from __future__ import annotations

import argparse
import shutil
import sys

from deploy.images.builds import BASE, IMAGES, exists
from deploy.servers.failure import Failure
from deploy.servers.server import print_message

EXIT_FAILED = 1
PROGRAMS = ("podman", "debootstrap")
PACKAGES = (*PROGRAMS, "runc", "netavark", "aardvark-dns")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m deploy.images", description="Images without an image registry.")
    parser.add_argument("names", nargs="*", choices=[[], *IMAGES], help="build these again; default: the missing ones")
    named = parser.parse_args(words).names
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        print_message(f"images: not found: {', '.join(missing)}; as root: apt-get install {' '.join(PACKAGES)}")
        return EXIT_FAILED
    wanted = [IMAGES[name] for name in named] or [image for image in IMAGES.values() if not exists(image)]
    if wanted and BASE not in wanted and not exists(BASE):
        wanted.insert(0, BASE)
    try:
        for image in sorted(wanted, key=list(IMAGES.values()).index):
            image.build(image.tag)
    except Failure as failure:
        print_message(f"images: {failure}")
        return EXIT_FAILED
    for image in IMAGES.values():
        print(f"{image.variable}={image.tag}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
