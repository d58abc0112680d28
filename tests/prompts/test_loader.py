"""The texts that models read: every template loads, and wrong use is an error."""

import pytest

from ebbtide.prompts import loader


def test_every_template_renders() -> None:
    """Every shipped template renders with its variables, says something, and leaves none over."""
    rendered = {
        name: loader.render(
            name, **dict.fromkeys(loader._template(name).get_identifiers(), "value")
        )
        for name in loader.names()
    }

    assert {"system", "tools/open_effort", "erased_turn"} <= rendered.keys()
    assert [name for name, said in rendered.items() if not said.strip() or "$" in said] == []


def test_a_value_is_not_searched_for_variables() -> None:
    """A dollar sign in a value is left alone."""
    rendered = loader.render("too_many_rounds", limit="$limit")

    assert "$limit" in rendered


@pytest.mark.parametrize(
    ("name", "values", "named"),
    [
        ("too_many_rounds", {}, "'limit'"),
        ("too_many_rounds", {"limit": 8, "turns": 3}, "'turns'"),
        ("../memory/names", {}, "'../memory/names'"),
        ("tools", {}, "'tools'"),
    ],
)
def test_wrong_use_is_an_error(name: str, values: dict[str, int], named: str) -> None:
    """A missing variable, an unused one and an unknown template raise, and are named."""
    with pytest.raises(loader.TemplateError, match=named):
        loader.render(name, **values)


@pytest.mark.parametrize("source", ["costs $5", "${a b}"])
def test_a_stray_dollar_sign_is_an_error(source: str) -> None:
    """A dollar sign that begins no variable raises."""
    with pytest.raises(loader.TemplateError, match="dollar sign"):
        loader._parse("x", source)


def test_a_doubled_dollar_sign_is_one() -> None:
    """Two dollar signs stand for one, and braces of JSON are left alone."""
    template = loader._parse("x", '{"cost": "$$5"}\n\n')

    assert template.substitute() == '{"cost": "$5"}'
