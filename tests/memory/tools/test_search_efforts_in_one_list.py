"""What this session says of a query, and what others do, as one list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.archive.protocol import Elsewhere, Found
from ebbtide.memory.efforts import Effort
from ebbtide.memory.record import Owner, Tip
from ebbtide.memory.tools.search_results import in_one_list


def own(said: str, turn: int = 1) -> Found:
    """Return a result of this session that says these terms, a letter each."""
    return Found(None, turn, 1.0, frozenset(said))


def other(said: str, name: str = "x") -> Elsewhere:
    """Return an effort of another session that says these terms."""
    owner, effort = Owner("ada", "t1"), Effort(name, "concluded")
    return Elsewhere(owner, effort, Tip(), "", 1.0, frozenset(said))


def written(one: Found | Elsewhere) -> str:
    """Return the terms of a result, in capitals if it is of another session."""
    said = "".join(sorted(one.said))
    return said.upper() if isinstance(one, Elsewhere) else said


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (["abc", "ab", "a"], ["ab"], "abc ab AB a"),
        (["ab", "a"], ["abc"], "ABC ab a"),
        (["ab", "a"], ["b", "ab"], "ab AB a B"),
        (["ab"], ["b", "c"], "ab B C"),
    ],
)
def test_who_says_less_of_the_query_comes_later(
    mine: list[str], theirs: list[str], expected: str
) -> None:
    """An effort elsewhere stands after the last own result that says as much; capitals are it."""
    found = in_one_list([*map(own, mine)], [*map(other, theirs)], 9)
    said = ["".join(sorted(one.said)) for one in found]
    shown = [
        s.upper() if isinstance(one, Elsewhere) else s for s, one in zip(said, found, strict=True)
    ]

    assert " ".join(shown) == expected


SAID = st.lists(st.text("abcd", max_size=4), max_size=7)


@given(SAID, SAID, st.integers(1, 7))
def test_nothing_is_pushed_out_that_says_as_much(
    mine: list[str], theirs: list[str], limit: int
) -> None:
    """Own results keep their order, and lose their place only to what says more of the query."""
    ours = [own(said, at) for at, said in enumerate(mine)]
    found = in_one_list(ours, [other(said, str(at)) for at, said in enumerate(theirs)], limit)
    kept = [one for one in found if isinstance(one, Found)]
    strangers = [len(one.said) for one in found if isinstance(one, Elsewhere)]
    lost = [len(one.said) for one in ours[:limit] if one not in kept]

    assert kept == ours[: len(kept)]
    assert len(found) == min(limit, len(mine) + len(theirs))
    assert max(lost, default=-1) < min(strangers, default=0) or not lost
