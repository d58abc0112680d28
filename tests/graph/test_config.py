"""The configuration: what beats what, and errors that say where the mistake stands."""

import os
import re
from pathlib import Path

import pytest

from ebbtide.graph.config import FILE, NAMES, PREFIX, Config, load
from ebbtide.memory.errors import SettingsError
from ebbtide.memory.settings import Settings


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the variables away that whoever runs the tests has set."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)


def written(folder: Path, text: str) -> Path:
    """Write `ebbtide.yaml` into a folder and return its path."""
    path = folder / FILE
    path.write_text(text, encoding="utf-8")
    return path


def test_without_any_source_the_defaults_hold(tmp_path: Path) -> None:
    """No file, no variable and no argument give the defaults and no model."""
    config = load({}, directory=tmp_path)

    assert config == Config(
        settings=Settings(), model=None, root=str(Path("~/.ebbtide").expanduser())
    )


@pytest.mark.parametrize(
    ("text", "variable", "argument", "expected"),
    [
        ("", "", None, 16_000),
        ("context_budget: 3_000", "", None, 3_000),
        ("context_budget: 3000", "4000", None, 4_000),
        ("context_budget: 3000", "", 5_000, 5_000),
        ("", "4000", 5_000, 5_000),
        ("context_budget:", "", None, 16_000),
    ],
)
def test_arguments_beat_the_environment_which_beats_the_file(
    request: pytest.FixtureRequest, text: str, variable: str, argument: object, expected: int
) -> None:
    """The strongest source that says something decides; empty says nothing."""
    path = written(request.getfixturevalue("tmp_path"), text)
    request.getfixturevalue("monkeypatch").setenv("EBBTIDE_CONTEXT_BUDGET", variable)

    config = load({"context_budget": argument}, path=path)

    assert config.settings.context_budget == expected


def test_where_each_value_was_given_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source that decided is named: file and line, variable or argument."""
    path = written(tmp_path, "decay_threshold: 3\ncontext_budget: 3000\nmodel: scripted\n")

    monkeypatch.setenv("EBBTIDE_CONTEXT_BUDGET", "4000")

    config = load({"model": "openai:x", "root": None}, path=path)

    assert config.sources == {
        "decay_threshold": f"{path}:1",
        "context_budget": "EBBTIDE_CONTEXT_BUDGET",
        "model": "argument model",
    }


def test_model_and_root_are_read_beside_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source may name the model and the archive's folder."""
    written(tmp_path, "model: openai:gpt-5-mini\nroot: kept\ndecay_threshold: 3\n")

    monkeypatch.setenv("EBBTIDE_ROOT", "elsewhere")

    config = load({}, directory=tmp_path)

    assert (config.model, config.root) == ("openai:gpt-5-mini", "elsewhere")
    assert config.settings == Settings(decay_threshold=3)


def test_only_what_was_given_counts_as_set(tmp_path: Path) -> None:
    """The settings know which fields were given, so that a run can be laid over them."""
    config = load({"decay_threshold": 3}, directory=tmp_path)

    assert config.settings.model_fields_set == {"decay_threshold"}


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("\ncontxt_budget: 3000", 2, "unknown key 'contxt_budget': did you mean 'context_budget'?"),
        ("zzz: 1", 1, "unknown key 'zzz': use one of context_budget, "),
        ("zzz:", 1, "unknown key 'zzz': use one of context_budget, "),
        (
            "decay_threshold: 3\ncontext_budget: 12",
            2,
            "context_budget: Input should be greater than",
        ),
        ("# a\n\ncontext_budget: lots", 3, "context_budget: Input should be a valid integer"),
        ("decay_threshold: true", 1, "decay_threshold: Input should be a valid integer"),
        ("decay_threshold: [3]", 1, "decay_threshold: expected one value, got a sequence"),
        ("model: a\nroot: {a: b}", 2, "root: expected one value, got a mapping"),
        ("zzz: {a: b}", 1, "unknown key 'zzz': use one of context_budget, "),
        (
            "decay_threshold: 3\ndecay_threshold: 4",
            2,
            "'decay_threshold' is given twice: remove one",
        ),
        ("decay_threshold: 3\nuser_id: ann", 2, "'user_id' may only be set by a run"),
        ("- decay_threshold", 1, "expected lines `name: value`"),
        ("decay_threshold: 3\nroot: [", 2, "not valid YAML: "),
        ("root: !!python/object:os.system x", 1, "not valid YAML: could not determine"),
        ("? [a]\n: 1", 1, "expected lines `name: value`"),
    ],
)
def test_a_mistake_in_the_file_is_an_error_with_file_and_line(
    tmp_path: Path, text: str, line: int, problem: str
) -> None:
    """Unknown keys, bad values and broken YAML say where they stand and what is wrong."""
    path = written(tmp_path, text)

    with pytest.raises(SettingsError, match=re.escape(f"{path}:{line}: {problem}")):
        load({}, path=path)


def test_a_bad_value_is_an_error_even_if_it_is_overridden(tmp_path: Path) -> None:
    """A file that is wrong is wrong, whatever the arguments say; each mistake has its line."""
    written(tmp_path, "decay_threshold: 0\ncontext_budget: 1")
    first, second = r":1: decay_threshold: .*\(got '0'\)", ":2: context_budget: "

    with pytest.raises(SettingsError, match=f"{first}.*{second}|{second}.*{first}"):
        load({"decay_threshold": 3}, directory=tmp_path)


def test_a_bad_variable_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad value in the environment names the variable."""
    monkeypatch.setenv("EBBTIDE_DECAY_THRESHOLD", "x")

    with pytest.raises(SettingsError, match=r"^EBBTIDE_DECAY_THRESHOLD: decay_threshold: "):
        load({}, directory=tmp_path)


@pytest.mark.parametrize(
    ("name", "value"), [("decay_threshold", 0), ("user_id", "ann"), ("budget", None)]
)
def test_a_bad_argument_is_an_error_that_names_it(tmp_path: Path, name: str, value: object) -> None:
    """A bad or unknown argument is named as such."""
    with pytest.raises(SettingsError, match=rf"^argument {name}: "):
        load({name: value}, directory=tmp_path)


def test_variables_that_are_no_settings_are_told_and_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else with our prefix is read; what may be a misspelling is told."""
    for name in ("EBBTIDE_MODLE", "EBBTIDE_USER_ID", "CONTEXT_BUDGET", "EBBTIDE_REDIS_URL"):
        monkeypatch.setenv(name, "x")

    config = load({}, directory=tmp_path)

    assert (config.settings, config.sources) == (Settings(), {})
    assert [one.getMessage() for one in caplog.records] == [
        "EBBTIDE_MODLE is no setting of Ebbtide and is ignored. did you mean 'model'?"
    ]


def test_every_setting_but_the_user_can_be_configured() -> None:
    """A file and the environment may give all settings but `user_id`, and model and root."""
    expected = {*Settings.model_fields, "model", "root"} - {"user_id"}

    assert set(NAMES) == expected
    assert PREFIX == "EBBTIDE_"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "No such file [^']*$"),
        (b"model: \xff\xfe", ""),
        (f"model: {'[' * 1_000}".encode(), "it is nested"),
    ],
    ids=["missing", "not UTF-8", "nested"],
)
def test_a_file_that_cannot_be_read_is_an_error(
    tmp_path: Path, data: bytes | None, said: str
) -> None:
    """A file that was asked for and is missing, or that nobody can read, is named."""
    path = tmp_path / FILE
    if data is not None:
        path.write_bytes(data)

    with pytest.raises(SettingsError, match=rf"ebbtide\.yaml: cannot be read: {said}"):
        load({}, path=path)


def test_a_folder_is_beside_the_file_that_names_it(tmp_path: Path) -> None:
    """A file that is read from elsewhere means its own neighbours; a URL is as it is written."""
    path = written(tmp_path, "root: kept")

    folder = load({}, path=path).root
    url = load({}, path=written(tmp_path, "root: sqlite:///a.db")).root

    assert (folder, url) == (str(tmp_path / "kept"), "sqlite:///a.db")
