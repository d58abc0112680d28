"""Stored turns: which efforts a turn belongs to, and what its id is made of."""

from ebbtide.memory.serialised import to_dict
from ebbtide.memory.turn import commit_id, memberships
from tests.memory.turns import concluded, human


def test_id_is_of_nonce_parent_and_messages() -> None:
    """Whatever of these is another gives another id, and the same the same."""
    said = [to_dict(human("hi"))]
    ids = [
        commit_id("a1", "b2", said),
        commit_id("a1", "b2", [to_dict(human("hi"))]),
        commit_id("a2", "b2", said),
        commit_id("a1", "b3", said),
        commit_id("a1", "b2", [to_dict(human("ho"))]),
    ]

    assert ids[0] == ids[1]
    assert len({*ids}) == 4


def test_concluding_turn_belongs_to_both() -> None:
    """A turn belongs to the effort active at its end and to those it concluded, once each."""
    events = [concluded("a", ""), concluded("b", ""), concluded("a", "")]

    assert (memberships("b", events), memberships(None, [])) == (("b", "a"), ())
