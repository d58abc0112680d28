"""The texts that models read: every template loads, and wrong use says what to do."""

import re
from pathlib import Path

import pytest

from ebbtide.prompts import loader


@pytest.mark.parametrize("name", loader.names())
def test_a_template_renders_when_its_variables_are_given(name: str) -> None:
    """Every shipped template renders, leaves no variable and ends in no newline."""
    variables = loader._template(name).get_identifiers()

    rendered = loader.render(name, **dict.fromkeys(variables, "value"))

    assert rendered == rendered.rstrip("\n") != ""
    assert "$" not in rendered


def test_templates_in_folders_are_found() -> None:
    """A template in a folder is named with a slash."""
    names = loader.names()

    assert "tools/open_effort" in names
    assert list(names) == sorted(names)


def test_variables_are_replaced_by_their_values() -> None:
    """A value stands where its variable stood, whatever its type."""
    rendered = loader.render("too_many_rounds", limit=8)

    assert "the limit of 8 for rounds" in rendered


def test_a_value_is_not_searched_for_variables() -> None:
    """A dollar sign in a value is left alone."""
    rendered = loader.render("too_many_rounds", limit="$limit")

    assert "the limit of $limit for rounds" in rendered


def test_a_missing_variable_is_an_error() -> None:
    """A variable without a value raises, naming template, variable and remedy."""
    expected = "template 'too_many_rounds': no value for 'limit'; pass one for each variable"

    with pytest.raises(ValueError, match=re.escape(expected)):
        loader.render("too_many_rounds")


def test_an_unused_variable_is_an_error() -> None:
    """A value without a variable raises, naming both and what the template has."""
    expected = "template 'too_many_rounds': no variable 'turns'; it has 'limit'"

    with pytest.raises(ValueError, match=re.escape(expected)):
        loader.render("too_many_rounds", limit=8, turns=3)


@pytest.mark.parametrize("name", ["no_such", "../memory/names", "/etc/passwd", "", "tools"])
def test_an_unknown_template_is_an_error(name: str) -> None:
    """A name that is no template raises, quoting it and listing what there is."""
    expected = rf"template {name!r}: there is none of that name; there are .*'too_many_rounds'"

    with pytest.raises(ValueError, match=expected):
        loader.render(name)


@pytest.mark.parametrize("source", ["costs $5", "at the end $", "${turn", "${a b}"])
def test_a_stray_dollar_sign_is_an_error(source: str) -> None:
    """A dollar sign that begins no variable raises, saying how to write one."""
    expected = "template 'x': a '$' begins no variable; write '$$' for a dollar sign"

    with pytest.raises(ValueError, match=re.escape(expected)):
        loader._parse("x", source)


def test_a_doubled_dollar_sign_is_one() -> None:
    """Two dollar signs stand for one, and braces of JSON are left alone."""
    template = loader._parse("x", '{"cost": "$$5"}\n\n')

    assert template.substitute() == '{"cost": "$5"}'


def test_short_notices_are_sections_of_one_file() -> None:
    """A section is a template by its own name, without its heading; the file itself is none."""
    assert loader.render("erased_turn") == "(erased)"
    assert loader.render("by_hand", effort="auth-bug", status="opened") == "auth-bug: opened."
    assert "notices" not in loader.names()


def test_no_two_notices_have_one_name() -> None:
    """Each heading stands once, and is no file's name."""
    text = (Path(__file__).parents[2] / "prompts/notices.md").read_text()
    headings = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    files = {path.stem for path in (Path(__file__).parents[2] / "prompts").glob("*.md")}

    assert sorted({*headings} - files) == sorted(headings)


def test_every_template_is_used() -> None:
    """No text is left of what nobody is told any more."""
    root = Path(__file__).parents[2]
    folders = ("cli", "evaluation", "graph", "memory", "nodes")
    code = "".join(path.read_text() for name in folders for path in (root / name).rglob("*.py"))

    unused = [name for name in loader.names() if f'"{name}"' not in code]

    assert [name for name in unused if not name.startswith("tools/")] == []
