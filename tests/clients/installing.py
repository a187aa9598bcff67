"""The clients in other languages, installed and built into `build/clients`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from lab.harness import installing
from lab.harness.installing import Program, build_go, build_java, build_javascript
from lab.harness.language_tools import find_jdk

HERE = Path(__file__).resolve().parent


def installed(name: str) -> list[str]:
    """The command that runs a client, which is installed first if need be."""
    return installing.installed(ALL[name], HERE / name, "clients")


def _java(main: str, built: Path) -> list[str]:
    quick = "-XX:TieredStopAtLevel=1"  # the program runs for seconds only
    return [f"{find_jdk()}/bin/java", quick, "-cp", f"{built}/classes:{built}/jars/*", main]


CLIENTS: Mapping[str, Program] = {
    "javascript": Program(
        part="node",
        build=build_javascript,
        command=lambda built: ["node", str(built / "main.js")],
    ),
    "java": Program(
        part="jdk",
        build=build_java,
        command=lambda built: _java("client.Main", built),
    ),
    "go": Program(
        part="go",
        build=build_go,
        command=lambda built: [str(built / "client")],
    ),
}

ORACLES: Mapping[str, Program] = {
    "ruler": Program(
        part="jdk",
        build=build_java,
        command=lambda built: _java("ruler.Main", built),
    ),
}
"""Programs whose answers are compared with the service's."""

TOOLS: Mapping[str, Program] = {
    "helm": Program(
        part="go",
        build=partial(build_go, package="helm.sh/helm/v3/cmd/helm"),
        command=lambda built: [str(built / "client")],
    ),
}
"""Programs of operators."""

VALIDATORS: Mapping[str, Program] = {
    "sns-validator": Program(
        part="node",
        build=build_javascript,
        command=lambda built: ["node", str(built / "main.js")],
    ),
    "message-manager": Program(
        part="jdk",
        build=build_java,
        command=lambda built: _java("manager.Main", built),
    ),
}
"""Signature validators."""

RULES: Mapping[str, Program] = {
    "axe": Program(
        part="node",
        build=build_javascript,
        command=lambda built: ["node", str(built / "node_modules/axe-core/axe.min.js")],
    ),
}
"""Rules of accessibility, which run in a page."""

ALL = {**CLIENTS, **TOOLS, **ORACLES, **VALIDATORS, **RULES}
