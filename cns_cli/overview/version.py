"""`cns version`: versions of the program, its data format and its dependencies."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import apsw

import cns
from cns_cli.options import Json
from cns_cli.output import print_json
from cns_common.sqlite.format import FORMAT

_OPTIONAL = {"cluster": "cassandra-driver", "celery": "celery", "pipeline": "pyspark"}


def version(json: Json = False) -> None:
    """Print the version of the program, of its data format, of Python and SQLite, and the optional parts.

    Example: cns version --json
    """
    facts = {
        "cns": cns.__version__,
        "dataFormat": str(FORMAT),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        **{part: _installed(package) for part, package in _OPTIONAL.items()},
    }
    if json:
        print_json([facts])
    else:
        for name, fact in facts.items():
            print(f"{name.replace('dataFormat', 'data format'):<11} {fact}")


def _installed(package: str) -> str:
    try:
        return f"{package} {version_of(package)}"
    except PackageNotFoundError:
        return "not installed"
