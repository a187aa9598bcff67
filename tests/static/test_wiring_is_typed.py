"""mypy checks every store against its contract where the composition roots name it: shown by stores that are broken.

A copy of the product gets a wrong return type in one method of each store. mypy must refuse each store where a
`Backend` is made.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from cns_backend.backend import CONTRACTS, Backend

ROOT = Path(__file__).parents[2]
ROOTS = ("cns_backend/store_host.py", "cns_backend/cluster.py")
WRONG = "memoryview"
"""A type that no contract returns."""
MYPY_S = 1_200


def stores_of(root: str) -> dict[str, str]:
    """The class that a composition root gives to `Backend` for each contract."""
    tree = ast.parse((ROOT / root).read_text())
    made = {
        target.id: node.value.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    (call,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == Backend.__name__
        and not any(
            isinstance(each.value, ast.Call) and ast.unparse(each.value).startswith("remote(") for each in node.keywords
        )
    ]
    found: dict[str, str] = {}
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg in CONTRACTS:
            match keyword.value:
                case ast.Call(func=ast.Name(id=name)):
                    found[keyword.arg] = name
                case ast.Name(id=variable):
                    found[keyword.arg] = made[variable]
                case ast.Attribute(attr=attribute):
                    found[keyword.arg] = attribute_class(tree, attribute)
    return found


def attribute_class(tree: ast.Module, attribute: str) -> str:
    """The class of `self.<attribute> = Class(...)`."""
    (name,) = [
        node.value.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == f"self.{attribute}"
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
    ]
    return name


def break_class(package_files: list[Path], name: str, contract: type) -> None:
    """Give the class's first method of the contract a wrong return type."""
    wanted = [method for method in vars(contract) if not method.startswith("_") and callable(vars(contract)[method])]
    for path in package_files:
        text = path.read_text()
        if f"class {name}" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.name == name:
                method = next(
                    each
                    for each in node.body
                    if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef) and each.name in wanted
                )
                assert method.returns is not None
                lines = text.split("\n")
                at = method.returns.lineno - 1
                lines[at] = re.sub(r"-> .*:", f"-> {WRONG}:", lines[at], count=1)
                path.write_text("\n".join(lines))
                return
    raise AssertionError(f"no class {name}")


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> str:
    """mypy's words on a copy in which every store is broken."""
    copy = tmp_path_factory.mktemp("broken")
    packages = [
        path for path in ROOT.iterdir() if path.is_dir() and (path.name == "cqs" or path.name.startswith("cns"))
    ]
    for package in [*packages, ROOT / "workers", ROOT / "deploy"]:
        shutil.copytree(package, copy / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    files = sorted(copy.rglob("*.py"))
    for root in ROOTS:
        for prefix, name in stores_of(root).items():
            break_class(files, name, CONTRACTS[prefix])
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *(copy / root for root in ROOTS)],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=MYPY_S,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.extended
@pytest.mark.parametrize(("root", "prefix"), [(root, prefix) for root in ROOTS for prefix in CONTRACTS])
def test_a_store_that_breaks_its_contract_is_refused(complaints: str, root: str, prefix: str) -> None:
    expected = f'Argument "{prefix}" to "Backend" has incompatible type "{stores_of(root)[prefix]}"'
    assert any(line.startswith(f"{root}:") and expected in line for line in complaints.splitlines()), complaints


def test_each_contract_is_a_field_of_the_backend() -> None:
    assert CONTRACTS.items() <= get_type_hints(Backend).items()
