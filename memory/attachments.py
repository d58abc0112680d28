"""Attachments: the data of large files in messages, stored once and referred to by digest.

A reference stands in place of the data, at any depth of a content block:
`{"ebbtide_attachment": "9f86d0…", "size": 6990508}`, with the facts that were read from the file.
"""

import hashlib
import mimetypes
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from ..prompts.loader import render
from .blocks import may_have_file
from .media import data_type, decoded, facts_of, is_pdf

LARGE = 64 * 1024
"""Characters of data from which they are stored once: smaller ones cost little in checkpoints.

PDFs are stored so whatever their size, since what they say stands beside the reference.
"""

_KEY = "ebbtide_attachment"

_DIGEST = re.compile("[0-9a-f]{64}")

Texts: TypeAlias = Mapping[str, str]
"""The data of attachments, as they stand in blocks, by their digests."""


def referring(content: Any) -> Any:
    """Return the content of a message with references in place of the data of large files.

    >>> referring([{"type": "file", "base64": "QQ=="}])
    [{'type': 'file', 'base64': 'QQ=='}]
    >>> referring([{"type": "file", "base64": "A" * 70_000}])[0]["base64"]["size"]
    70000
    """
    return _mapped(content, _reference)


def data_of(contents: Iterable[Any]) -> Texts:
    """Return the data of all large files in the contents of messages, by their digests."""
    found: dict[str, str] = {}

    def noted(text: str) -> Any:
        reference = _reference(text)
        if reference is not text:
            found[reference[_KEY]] = text
        return text

    for content in contents:
        if isinstance(content, list):
            _mapped(content, noted)
    return found


def references(contents: Iterable[Any]) -> Mapping[str, int]:
    """Return the sizes of what the contents of messages refer to, by their digests.

    >>> block = {"type": "file", "base64": {"ebbtide_attachment": "9f" * 32, "size": 3}}
    >>> [*references([[block]]).values()]
    [3]
    """
    found: dict[str, int] = {}
    for content in contents:
        for block in _files(content) if isinstance(content, list) else ():
            found |= {one[_KEY]: one["size"] for one in _found(block)}
    return found


def without_facts(content: Any) -> Any:
    """Return a content whose references have no facts, which depend on what is installed."""
    return _with_references(content, lambda one: {_KEY: one[_KEY], "size": one["size"]})


def without_texts(content: Any) -> Any:
    """Return a content whose references have no text of their file; the same one if none had."""
    if not isinstance(content, list) or not any("text" in _facts(one) for one in _found(content)):
        return content

    def short(one: Mapping[str, Any]) -> Any:
        facts = {key: item for key, item in _facts(one).items() if key != "text"}
        return {**one, "facts": facts} if "facts" in one else one

    return _with_references(content, short)


def _facts(reference: Mapping[str, Any]) -> Mapping[str, Any]:
    facts = reference.get("facts")
    return facts if isinstance(facts, Mapping) else {}


def _with_references(value: Any, change: Callable[[Mapping[str, Any]], Any]) -> Any:
    if _is_reference(value):
        return change(value)
    if isinstance(value, dict):
        return {key: _with_references(item, change) for key, item in value.items()}
    return [_with_references(item, change) for item in value] if isinstance(value, list) else value


def complete(content: Any, texts: Texts) -> Any:
    """Return content with data in place of references, the inverse of `referring`.

    A text stands for a block whose data are not stored any more.

    >>> whole = [{"type": "file", "base64": "A" * 70_000}]
    >>> complete(referring(whole), data_of([whole])) == whole
    True
    """
    if not isinstance(content, list):
        return content
    return [
        block
        if not isinstance(block, dict)
        else {"type": "text", "text": render("missing_attachment")}
        # The size counts in tokens, so that a client must not make it up.
        if any(len(texts.get(one[_KEY], "")) != one["size"] for one in _found(block))
        else _with_references(block, lambda one: texts[one[_KEY]])
        for block in content
    ]


def named_files(texts: Texts, contents: Iterable[Any]) -> dict[str, bytes]:
    """Return the files of attachments by their names: the digest, and the ending of their type.

    Data that are no base64 are written as they stand.

    >>> block = {"type": "file", "base64": "JVBERg==", "mime_type": "application/pdf"}
    >>> digest = "9f" * 32
    >>> block["base64"] = {_KEY: digest, "size": 8}
    >>> named_files({digest: "JVBERg=="}, [[block]])[f"{digest}.pdf"]
    b'%PDF'
    """
    types: dict[str, str] = {}
    for content in contents:
        for block in _files(content):
            own = {**block, **(block["source"] if isinstance(block.get("source"), dict) else {})}
            kind = own.get("mime_type") or own.get("media_type") or ""
            types |= {one[_KEY]: str(kind) for one in _found(block)}
    files: dict[str, bytes] = {}
    for digest, text in texts.items():
        ending = mimetypes.guess_extension(data_type(text) or types.get(digest, "")) or ""
        files[digest + ending] = decoded(text)
    return files


def _files(content: Any) -> list[dict[str, Any]]:
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and may_have_file(block)]


def _mapped(content: Any, change: Callable[[str], Any]) -> Any:
    """Return content with each text of its files changed; the same one if nothing was."""
    if not isinstance(content, list):
        return content
    files = {id(block) for block in _files(content)}
    after = [_changed(block, change) if id(block) in files else block for block in content]
    return (
        after if any(new is not old for new, old in zip(after, content, strict=True)) else content
    )


def _changed(value: Any, change: Callable[[str], Any]) -> Any:
    if isinstance(value, str):
        return change(value)
    if _is_reference(value):
        return value
    if isinstance(value, dict):
        # What is under `text` was said, as in a file of plain text.
        after = {k: v if k == "text" else _changed(v, change) for k, v in value.items()}
        return after if any(after[key] is not value[key] for key in value) else value
    if isinstance(value, list):
        items = [_changed(item, change) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def _reference(text: str) -> Any:
    """Return the reference to a large file's data, the same text if it is none."""
    if not (len(text) > LARGE or is_pdf(text)) or not text.isascii():  # as base64 and URLs are
        return text
    reference = {_KEY: hashlib.sha256(text.encode()).hexdigest(), "size": len(text)}
    facts = facts_of(text)
    return {**reference, "facts": dict(facts)} if facts else reference


def _is_reference(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.keys() - {"facts"} == {_KEY, "size"}
        and isinstance(value[_KEY], str)
        and _DIGEST.fullmatch(value[_KEY]) is not None
        and type(value["size"]) is int
        and value["size"] >= 0
    )


def _found(value: Any) -> Iterator[Mapping[str, Any]]:
    if _is_reference(value):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _found(item)
    elif isinstance(value, list):
        for item in value:
            yield from _found(item)
