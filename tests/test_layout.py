"""The house style's limits, checked on every source file of the package and the examples."""

import ast
import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ebbtide
from ebbtide.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]

LAYOUT = {
    *("benchmarks", "cli", "evaluation", "examples", "graph", "memory", "nodes", "prompts"),
    *("testing", "tests"),
}
SCRIPTS = {"benchmarks", "examples"}
MAY_PRINT = {"benchmarks", "cli", "examples"}
ENTRIES = {"graph/studio.py", "testing/in_memory.py"}
OPTIONAL = {"graph/server.py", "memory/redis_attention.py"}
"""What is imported only where its extra is installed."""
NAMED = {"langchain-openai", "langgraph-checkpoint-sqlite"}
"""Dependencies that are imported by a name, or share the package of another distribution."""
BROUGHT = {"pydantic-core"}
"""What a dependency pins itself."""
PROTOCOLS = {
    "memory/archive/memories.py": "memory/attention/law.py",
    "memory/archive/sql.py": "memory/archive/protocol.py",
}
"""By module, where the methods of its class are documented, which inherits from a protocol."""
NO_RULES = ("memory/archive/", "memory/clock.py", "memory/redis_attention.py", "memory/tokens.py")
"""Of the memory, what is no rule: the archive, the clock, a cache, and the tokeniser."""
READING = {"Path", "read_bytes", "read_text", "monotonic", "perf_counter", "today", "utcnow"}
READING |= {"environ", "getenv", "stamp", "uuid4"}
"""Names by which code reads files, the clock, the environment and chance; `open` is forbidden."""
TESTED_AS = {
    "memory/archive/elsewhere.py": "memory/conformance/test_search_sessions.py",
    "memory/archive/erasures.py": "memory/conformance/test_erase.py",
    "memory/archive/index.py": "memory/conformance/test_search.py",
    "memory/archive/protocol.py": "memory/conformance/conftest.py",
    "memory/archive/records.py": "memory/conformance/test_read.py",
    "memory/archive/sessions.py": "memory/conformance/test_together.py",
    "memory/archive/sql.py": "memory/archive/test_database.py",
}
"""By module without a test file of its name, where what it does is tested."""
VAGUE = {"utils", "helpers", "manager", "base", "common"}

FILE_LINES = 500
SMALL_LINES = 120
EXAMPLE_LINES = 80
FUNCTION_LINES = 40
NODE_LINES = 24
PARAMETERS = 5

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


def folders() -> list[Path]:
    """Return the folders at the root that hold Python files, leaving out what is generated."""
    return [
        entry
        for entry in sorted(ROOT.iterdir())
        if entry.is_dir()
        and not entry.name.startswith((".", "build", "dist"))
        and next(entry.rglob("*.py"), None)
    ]


def sources() -> list[str]:
    """Return the paths of the source files, relative to the root."""
    paths = [
        path for folder in folders() if folder.name != "tests" for path in folder.rglob("*.py")
    ]
    return sorted(path.relative_to(ROOT).as_posix() for path in [ROOT / "__init__.py", *paths])


@cache
def read(source: str) -> str:
    """Return the text of a source file."""
    return (ROOT / source).read_text(encoding="utf-8")


@cache
def tree(source: str) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse(read(source))


@cache
def functions(source: str) -> list[Function]:
    """Return all functions and methods of a source file, nested ones too."""
    return [node for node in ast.walk(tree(source)) if isinstance(node, Function)]


def third_party(source: str) -> set[str]:
    """Return the top-level packages of others that a source file imports."""
    modules = [
        name
        for node in ast.walk(tree(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    ]
    return {name.partition(".")[0] for name in modules} - {*sys.stdlib_module_names}


def canonical(requirement: str) -> str:
    """Return the normalised name of a distribution, from a requirement or a name."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[>=<;]", requirement)[0]).lower()


def parameters(function: Function) -> list[str]:
    """Return the names of the parameters of a function, `self` and `cls` aside."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in named if argument.arg not in {"self", "cls"}]


def public(node: Documented) -> Iterator[Documented]:
    """Yield a module or class, and the public classes and functions in it."""
    yield node
    for child in node.body:
        if isinstance(child, ast.ClassDef | Function) and not child.name.startswith("_"):
            yield from public(child) if isinstance(child, ast.ClassDef) else [child]


def long_functions(source: str) -> list[str]:
    """Return the names of the functions that are too long."""
    return [
        function.name
        for function in functions(source)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES
    ]


def long_nodes(source: str) -> list[str]:
    """Return the names of the nodes that are too long, their docstring aside."""
    folder, _, module = source.removesuffix(".py").rpartition("/")
    names = {module, f"a{module}"} if folder == "nodes" else set[str]()
    return [
        node.name
        for node in functions(source)
        if node.name in names
        and (node.end_lineno or 0) - (node.body[0].end_lineno or 0) + node.body[0].lineno
        > node.lineno + NODE_LINES
    ]


def greedy_functions(source: str) -> list[str]:
    """Return the names of the functions that take too much."""
    return [
        function.name for function in functions(source) if len(parameters(function)) > PARAMETERS
    ]


def undocumented(source: str) -> list[str]:
    """Return the public names without a docstring, those aside that a protocol documents."""
    protocol = PROTOCOLS.get(source)
    inherited = {one.name for one in functions(protocol)} if protocol else set()
    bare = [node for node in public(tree(source)) if not ast.get_docstring(node)]
    return [name for node in bare if (name := getattr(node, "name", "module")) not in inherited]


def local_imports(source: str) -> list[int]:
    """Return the lines of imports inside functions."""
    return [
        node.lineno
        for function in functions(source)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def calls_of(source: str, name: str) -> Iterator[ast.Call]:
    """Yield the calls of a plain name."""
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def calls_of_print(source: str) -> list[int]:
    """Return the lines that call `print`."""
    return [call.lineno for call in calls_of(source, "print")]


def written_errors(source: str) -> list[int]:
    """Return the lines that write out an error which a model reads."""
    return [
        call.lineno
        for call in calls_of(source, "ToolError")
        if isinstance(call.args[0], ast.JoinedStr | ast.Constant)
    ]


def impure(source: str) -> list[str]:
    """Return what a rule of the memory reads that it was not given."""
    is_rule = source.startswith("memory/") and not source.startswith(NO_RULES)
    clock = ["now(...)"] if is_rule and ".now(" in read(source) else []
    return [*clock, *sorted(names(source) & READING)] if is_rule else []


def changeable(source: str) -> list[str]:
    """Return the dataclasses of the memory that are not frozen; the archive's do work."""
    if not source.startswith("memory/") or source.startswith("memory/archive/"):
        return []
    classes = (node for node in ast.walk(tree(source)) if isinstance(node, ast.ClassDef))
    decorators = ((node.name, ast.unparse(one)) for node in classes for one in node.decorator_list)
    return [name for name, one in decorators if "dataclass" in one and "frozen=True" not in one]


def names(source: str) -> set[str]:
    """Return the names that a source file uses or imports."""
    nodes = list(ast.walk(tree(source)))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return used | attributes | {node.name for node in nodes if isinstance(node, ast.alias)}


def imported(source: str) -> set[str]:
    """Return the source files that a source file, or a stub, imports by relative imports."""
    found = set()
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = (
                (ROOT / source).parents[node.level - 1].joinpath(*(node.module or "").split("."))
            )
            found |= {folder.with_suffix(".py"), *(folder / f"{one.name}.py" for one in node.names)}
    return {path.relative_to(ROOT).as_posix() for path in found if path.is_file()}


def lonely() -> Iterator[tuple[str, str]]:
    """Yield the small modules that one other module of their folder alone imports, with that one.

    A node is a module of its own, and so is what is imported by its name: commands, entry points.
    """
    importers: dict[str, list[str]] = {}
    stubs = ["__init__.pyi", "graph/commands/__init__.pyi"]
    for source in [*SOURCES, *stubs]:
        for module in imported(source):
            importers.setdefault(module, []).append(source)
    named = {f"cli/{module.partition(':')[0]}.py" for module, _ in COMMANDS.values()}
    for module, (first, *others) in importers.items():
        lines = read(module).count("\n")
        alone = not others and first.split("/")[0] == module.split("/")[0]
        fits = lines < SMALL_LINES and lines + read(first).count("\n") <= FILE_LINES
        if alone and fits and module not in named | ENTRIES and Path(module).parent.name != "nodes":
            yield module, first


def mirrors(source: str) -> list[Path]:
    """Return the test files named by a source file, with an aspect or without.

    Those of the archive are in `conformance` too, a file for each thing that any archive can do.
    """
    folder, stem = Path(source).parent, Path(source).stem
    folders = [folder, Path("memory/conformance")] if folder.name == "archive" else [folder]
    named = [f"{one}/test_{stem}{aspect}.py" for one in folders for aspect in ("", "_*")]
    wanted = [TESTED_AS[source]] if source in TESTED_AS else named
    return [path for pattern in wanted for path in (ROOT / "tests").glob(pattern)]


def surface(package: ModuleType) -> list[str]:
    """Return the public names of a package, its modules aside; all are imported by then."""
    for name in package.__all__:
        getattr(package, name)
    return sorted(
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    )


def long_expectations(path: Path) -> list[str]:
    """Return the names of the tests of a file whose docstring is not one sentence."""
    return [
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, Function)
        and node.name.startswith("test_")
        and not re.fullmatch(r"(?!.*[.!?] [A-Z])[^\n]*\.", ast.get_docstring(node) or "")
    ]


def broken(rule: Callable[[str], Any]) -> dict[str, Any]:
    """Return what a rule finds wrong, by source file."""
    return {source: found for source in SOURCES if (found := rule(source))}


FOLDERS = [folder.name for folder in folders()]
SOURCES = sources()
EXAMPLES = [source for source in SOURCES if source.startswith("examples/")]


def test_the_folders_at_the_root_are_the_given_ones() -> None:
    """No folder with Python files stands at the root but those of the given layout."""
    extra = set(FOLDERS) - LAYOUT

    assert extra == set()


def test_no_module_lies_at_the_root() -> None:
    """The root holds no Python file but `__init__.py`, since it would be packaged."""
    modules = [path.name for path in ROOT.glob("*.py")]

    assert modules == ["__init__.py"]


def test_every_source_folder_is_packaged() -> None:
    """The packages of `pyproject.toml` are exactly the source folders, scripts aside."""
    parents = {Path(source).parent for source in SOURCES}
    packages = {
        ".".join(("ebbtide", *parent.parts))
        for parent in parents
        if not SCRIPTS.intersection(parent.parts)
    }

    assert sorted(packages) == sorted(PACKAGES)


def test_the_dependencies_are_what_the_package_imports() -> None:
    """A plain install brings no more and no less than all but the command line imports."""
    imports = {
        name
        for source in SOURCES
        if source.split("/")[0] not in SCRIPTS | {"cli"} and source not in OPTIONAL
        for name in third_party(source)
    }
    declared = {canonical(one) for one in PROJECT["project"]["dependencies"]}

    homes = packages_distributions()
    needed = [{*map(canonical, homes[name])} for name in imports]
    assert declared - NAMED <= set().union(*needed)
    assert [names for names in needed if not names & (declared | BROUGHT)] == []


def test_the_command_line_is_an_extra() -> None:
    """What `cli` brings is imported by the command line alone, and is what that imports beside."""
    of_cli = {canonical(one) for one in PROJECT["project"]["optional-dependencies"]["cli"]}
    homes = packages_distributions()
    packaged = [source for source in SOURCES if source.split("/")[0] not in SCRIPTS]
    beside = {
        name for source in packaged if not source.startswith("cli/") for name in third_party(source)
    }
    alone = {name for source in packaged for name in third_party(source)} - beside

    assert {canonical(homes[name][0]) for name in alone} == of_cli


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_an_init_and_imports(package: str) -> None:
    """Every package is a regular one, from this checkout, and imports without side conditions."""
    module = importlib.import_module(package)

    assert module.__file__ is not None
    assert Path(module.__file__).resolve().is_relative_to(ROOT)


def test_the_package_is_imported_once() -> None:
    """The root is imported as `ebbtide` only, not by the name of its folder as well."""
    modules = {
        name
        for name, module in sys.modules.items()
        if (path := getattr(module, "__file__", None))
        and Path(path).resolve() == ROOT / "__init__.py"
    }

    assert modules == {"ebbtide"}


def test_tests_are_no_package() -> None:
    """Test folders have no `__init__.py`, so that they shadow no package."""
    inits = list((ROOT / "tests").rglob("__init__.py"))

    assert inits == []


def test_a_test_states_its_expectation() -> None:
    """Each test's docstring is one sentence on one line; what explains it is a comment."""
    tests = (ROOT / "tests").rglob("test_*.py")

    assert {path.name: found for path in tests if (found := long_expectations(path))} == {}


def test_the_public_surface_is_what_all_names() -> None:
    """`ebbtide.__all__` is sorted, and names what the package exports and its modules."""
    exported = surface(ebbtide)

    assert list(ebbtide.__all__) == sorted([*exported, "attention", "commands"])


def test_a_file_is_named_by_what_it_holds() -> None:
    """No file has one of the names that say nothing."""
    vague = [source for source in SOURCES if Path(source).stem in VAGUE]

    assert vague == []


def test_tests_mirror_modules() -> None:
    """Each module has a test file of its name in the folder of its name, or a row in the table."""
    modules = [
        source
        for source in SOURCES
        if Path(source).stem != "__init__" and not SCRIPTS & {*Path(source).parts}
    ]

    assert [source for source in modules if not mirrors(source)] == []
    assert {*TESTED_AS} <= {*modules}


def test_a_file_stays_short() -> None:
    """No file is longer than 500 lines."""
    assert broken(lambda source: read(source).count("\n") > FILE_LINES) == {}


def test_what_one_module_reads_is_in_it() -> None:
    """A small module with one importer belongs to it, if both together are no long file."""
    assert {*lonely()} == set()


def test_examples_stay_under_80_lines() -> None:
    """Every example has fewer than 80 lines."""
    lines = {source: len(read(source).splitlines()) for source in EXAMPLES}

    assert {source: n for source, n in lines.items() if n >= EXAMPLE_LINES} == {}


def test_a_function_stays_short() -> None:
    """No function is longer than 40 lines, its docstring counted."""
    assert broken(long_functions) == {}


def test_a_node_is_shorter() -> None:
    """A node has fewer than 25 lines beside its docstring: it unpacks, calls a rule and packs."""
    assert broken(long_nodes) == {}


def test_a_function_takes_few_parameters() -> None:
    """No function takes more than five parameters, but for the two that make an agent."""
    # The commands with the most options have a parameter for each.
    greedy = {name for names in broken(greedy_functions).values() for name in names}

    assert greedy <= {"build_memory_graph", "create_memory_agent", "chat", "evaluate", "export"}


def test_what_is_public_is_documented() -> None:
    """Every module, public class, public function and public method has a docstring."""
    assert broken(undocumented) == {}


def test_imports_stand_at_the_top() -> None:
    """No function imports anything: the import order is the architecture."""
    assert broken(local_imports) == {}


def test_no_import_is_for_type_checkers_only() -> None:
    """No file dodges an import cycle with TYPE_CHECKING."""
    assert broken(lambda source: {"TYPE_CHECKING"} & names(source)) == {}


def test_errors_that_models_read_are_prompts() -> None:
    """The text of an error of a memory tool stands in `prompts/`, as all that models read."""
    assert broken(written_errors) == {}


def test_a_rule_reads_nothing_that_it_is_not_given() -> None:
    """Rules of the memory read no clock, no file and no environment: all comes as an argument."""
    assert broken(impure) == {}


def test_values_do_not_change() -> None:
    """A dataclass of the memory is frozen."""
    assert broken(changeable) == {}


def test_the_init_of_the_nodes_hides_no_module() -> None:
    """`nodes/__init__.py` is its docstring: a node named like its module would hide it."""
    assert [type(node) for node in tree("nodes/__init__.py").body] == [ast.Expr]


def test_nothing_is_left_to_do() -> None:
    """No file holds a note of unfinished work."""
    assert broken(lambda source: re.findall(r"\b(?:TODO|FIXME|XXX)\b", read(source))) == {}


def test_the_library_does_not_print() -> None:
    """Only commands, benchmarks and examples print; the rest logs."""
    printing = broken(calls_of_print)

    assert [source for source in printing if source.split("/")[0] not in MAY_PRINT] == []
