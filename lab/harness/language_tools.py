"""The tools of other languages on this machine, if they are new enough for the SDKs, and Terraform with a provider."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from deploy.servers.software import JAVA_RELEASE, Package, find_java

NODE_RELEASE = (20,)
GO_RELEASE = (1, 24)
AWS_PROVIDER = "registry.terraform.io/hashicorp/aws"
PROVIDERS = ("~/.terraform.d/plugins", "/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins")
"""Where Terraform itself looks for providers."""
_VERSION = re.compile(r"\d+(?:\.\d+)*")


def find_node() -> str | None:
    return _new_enough("node", "--version", NODE_RELEASE)


def find_go() -> str | None:
    return _new_enough("go", "version", GO_RELEASE)


def find_jdk() -> Path | None:
    """The home of the Java that Cassandra is run with, if it has a compiler."""
    java = find_java()
    home = Path(java.binary).resolve().parents[1] if java else None
    return home if home and (home / "bin/javac").exists() else None


def find_terraform() -> tuple[str, Path] | None:
    """Terraform and a directory with its AWS provider, of those where it looks itself or below /opt."""
    program = shutil.which("terraform")
    directories = [*(Path(name).expanduser() for name in PROVIDERS), *Path("/opt").glob("*")]
    found = (directory for directory in directories if (directory / AWS_PROVIDER).is_dir())
    providers = next(found, None)
    return (program, providers) if program and providers else None


NODE: Package = ("nodejs (>= 20)", find_node)
NPM: Package = ("npm", lambda: shutil.which("npm"))
GO: Package = ("golang-go (>= 2:1.24~)", find_go)
JDK: Package = (f"openjdk-{JAVA_RELEASE}-jdk-headless", find_jdk)


def _new_enough(program: str, question: str, release: tuple[int, ...]) -> str | None:
    found = shutil.which(program)
    if found is None:
        return None
    said = subprocess.run([found, question], capture_output=True, text=True, check=False).stdout
    version = _VERSION.search(said)
    return found if version and tuple(map(int, version[0].split("."))) >= release else None
