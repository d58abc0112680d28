"""The settings: their limits, and which of several sources a run takes them from."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ebbtide.memory.errors import SettingsError
from ebbtide.memory.settings import Settings, resolve
from tests.processes import ROOT


@dataclass(frozen=True)
class Foreign:
    """The context of an application, with a field and a method that are no settings."""

    tenant: str = "x"

    def anchor(self) -> str:
        """Return where the ship lies."""
        return self.tenant


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("contxt_budget", "^unknown key 'contxt_budget': did you mean 'context_budget'"),
        ("zzz", "^unknown key 'zzz': use one of context_budget, "),
        ("context_budget", "^context_budget: "),
    ],
)
def test_an_unknown_setting_is_an_error(name: str, said: str) -> None:
    """A name that is no setting raises, and so does a bad value, each in a plain line."""
    with pytest.raises(SettingsError, match=said):
        Settings(**{name: 1})


def test_a_key_that_is_nearly_a_setting_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A run's context may have keys of the application; one that looks like ours is a warning."""
    context = {"decay_treshold": 3, "tenant": "x", "user": "ann"}

    assert resolve(context, Settings()) == Settings()
    (warning,) = [one.getMessage() for one in caplog.records]
    assert "'decay_treshold'" in warning
    assert "did you mean 'decay_threshold'?" in warning


@pytest.mark.thorough
def test_a_program_that_is_checked_without_plugins(tmp_path: Path) -> None:
    """Every setting and part of the middleware has a default that type checkers see."""
    program = (
        "from ebbtide import EbbtideMiddleware, Settings\n"
        "EbbtideMiddleware(settings=Settings(context_budget=4_000))\n"
    )
    (tmp_path / "program.py").write_text(program, "utf-8")
    options = [
        "--strict",
        "--config-file=",
        f"--cache-dir={ROOT / '.mypy_cache' / 'user'}",
        "--follow-imports=silent",
    ]
    command = [sys.executable, "-m", "mypy", *options, "program.py"]

    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout


def test_several_bad_settings_are_all_named() -> None:
    """One error names every bad value, not just the first, and quotes it."""
    with pytest.raises(SettingsError, match=r"context_budget: .*; decay_threshold: .*\(got 0\)"):
        resolve({"context_budget": 1, "decay_threshold": 0}, Settings())


@pytest.mark.parametrize("context", [None, {"tenant": "a"}, Foreign()])
def test_a_context_that_is_not_ours_changes_nothing(context: object) -> None:
    """None, an empty or foreign mapping and a foreign object leave the agent's settings."""
    defaults = Settings(context_budget=5_000)

    assert resolve(context, defaults) is defaults


@pytest.mark.parametrize(
    "context",
    [{"decay_threshold": 3}, {"decay_threshold": 3, "tenant": "x"}, Settings(decay_threshold=3)],
)
def test_a_run_changes_what_it_sets(context: object) -> None:
    """What a run does not set comes from the agent, even where the class has a default."""
    chosen = resolve(context, Settings(context_budget=5_000, decay_threshold=9))

    assert (chosen.context_budget, chosen.decay_threshold) == (5_000, 3)


def test_a_class_made_of_the_settings_may_have_fields_of_its_own() -> None:
    """Only the settings of such a context count, as of any other object."""

    class Own(Settings):
        locale: str = "en"

    chosen = resolve(Own(locale="de", decay_threshold=3), Settings(context_budget=5_000))

    assert chosen == Settings(context_budget=5_000, decay_threshold=3)
