"""The shape of the source tree that neither ruff nor import-linter checks."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]
UNPACKAGED = {"benchmarks", "build", "dist", "examples", "site", "tests"}
PACKAGED = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "__init__.py", *ROOT.glob("[!.]*/**/*.py")]
    if path.relative_to(ROOT).parts[0] not in UNPACKAGED
)
"""The source files of the package."""
OPTIONAL = {
    "graph/server.py",
    "inspector/page.py",
    "inspector/server.py",
    "memory/archive/vectors.py",
    "memory/attention/redis.py",
}
"""What is imported only where its extra is installed."""
NAMED = {"langchain-openai", "langgraph-checkpoint-sqlite", "pystemmer"}
"""Dependencies that others import, by a name or by themselves, or that share a package."""
BROUGHT = {"pydantic-core"}
"""What a dependency pins itself."""

homes = cache(packages_distributions)
"""The distributions that each top-level package is of; to read their files takes a second."""


@cache
def third_party(source: str) -> frozenset[str]:
    """Return the top-level packages of others that a source file imports."""
    modules = [
        name
        for node in ast.walk(ast.parse((ROOT / source).read_text(encoding="utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    ]
    return frozenset(name.partition(".")[0] for name in modules) - sys.stdlib_module_names


def canonical(requirement: str) -> str:
    """Return the normalised name of a distribution, from a requirement or a name."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[>=<;]", requirement)[0]).lower()


def test_every_source_folder_is_packaged() -> None:
    """The packages of `pyproject.toml` are exactly the source folders, scripts aside."""
    packages = {".".join(("ebbtide", *Path(source).parent.parts)) for source in PACKAGED}

    assert sorted(packages) == sorted(PACKAGES)


def test_the_dependencies_are_what_the_package_imports() -> None:
    """A plain install brings no more and no less than all but the command line imports."""
    imports = {
        name
        for source in PACKAGED
        if not source.startswith("cli/") and source not in OPTIONAL
        for name in third_party(source)
    }
    declared = {canonical(one) for one in PROJECT["project"]["dependencies"]}

    needed = [{*map(canonical, homes()[name])} for name in imports]
    assert declared - NAMED <= set().union(*needed)
    assert [names for names in needed if not names & (declared | BROUGHT)] == []


def test_the_command_line_is_an_extra() -> None:
    """What `cli` brings is imported by the command line alone, and is what that imports beside."""
    of_cli = {canonical(one) for one in PROJECT["project"]["optional-dependencies"]["cli"]}
    beside = {
        name for source in PACKAGED if not source.startswith("cli/") for name in third_party(source)
    }
    alone = {name for source in PACKAGED for name in third_party(source)} - beside

    assert {canonical(homes()[name][0]) for name in alone} == of_cli
