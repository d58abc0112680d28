"""What a model is shown of a tool's schema, piece by piece."""

from typing import Any

import pytest

from ebbtide.memory.tokens import pieces


def shown(parameters: Any) -> list[tuple[int, str]]:
    """Return the pieces of a tool with these parameters, without its name."""
    return [*pieces({"function": {"name": "f", "parameters": parameters}})][1:]


def test_the_form_of_openai_and_the_bare_function_are_the_same() -> None:
    """A tool is known by its function, in OpenAI's envelope or without it."""
    function = {"name": "f", "description": "Do it."}

    enveloped, bare = pieces({"type": "function", "function": function}), pieces(function)

    assert [*enveloped] == [*bare] == [(7, "f:Do it")]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "description": "A town."}, [(6, "p:string:A town")]),
        ({"type": ["string", "null"]}, [(6, "p:string | null:")]),
        ({"enum": ["a", 1, None]}, [(6, "p::"), (0, "a"), (3, "1"), (3, "None")]),
        ({"type": "array", "items": {"type": "string"}}, [(6, "p:array:"), (1, "string:")]),
        ({"anyOf": [{"type": "a"}, {"type": "b"}]}, [(6, "p::"), (1, "a:"), (1, "b:")]),
        ({"type": "integer", "minimum": 1}, [(6, "p:integer:"), (0, '{"minimum":1}')]),
        ({"$ref": "#/$defs/A"}, [(6, "p::"), (0, '{"$ref":"#/$defs/A"}')]),
        (True, [(6, "p:True")]),
    ],
)
def test_a_parameter_is_shown(schema: Any, expected: list[tuple[int, str]]) -> None:
    """Name, type and description, then values, items, alternatives, and other keywords as JSON."""
    found = shown({"type": "object", "properties": {"p": schema}, "required": ["p"]})

    assert found == expected


def test_objects_inside_objects_are_shown_as_parameters() -> None:
    """What surrounds the parameters is counted for each object, what surrounds one for each."""
    town = {"type": "object", "properties": {"name": {"type": "string"}, "zip": {"type": "string"}}}

    found = shown({"properties": {"town": town, "day": {"type": "string"}}})

    assert found == [
        *((6, "town:object:"), (6, "name:string:"), (3, "zip:string:")),
        (3, "day:string:"),
    ]


@pytest.mark.parametrize("closed", [True])
def test_a_closed_object_is_shown_as_an_open_one(*, closed: bool) -> None:
    """That further properties are allowed or not is nowhere shown."""
    found = shown({"properties": {}, "additionalProperties": closed})

    assert found == []


def test_a_schema_for_further_properties_is_shown() -> None:
    """What further properties must be counts as JSON."""
    found = shown({"additionalProperties": {"type": "integer"}})

    assert found == [(0, '{"additionalProperties":{"type":"integer"}}')]


@pytest.mark.parametrize("parameters", [True, {"properties": ["x"]}])
def test_what_is_no_schema_shows_nothing(parameters: Any) -> None:
    """Parameters that are no JSON schema of an object do not stop the count."""
    found = shown(parameters)

    assert found == []
