"""Forks: whoever goes back starts a branch, and sees its own past only."""

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.record import Tip, branch_id
from tests.memory.turns import OWNER, START, commit_all, opened, turn, visible


def test_taken_slot_starts_a_branch(archive: Archive) -> None:
    """Another group in a taken slot begins a branch that says where it comes from."""
    before = commit_all(archive, [turn(1)])
    commit_all(archive, [turn(2, "one way")], before)

    record = archive.commit(OWNER, before, turn(2, "another"))

    assert record.branch == branch_id("main", 2, record.digest)
    assert record.origin == ("main", 1)


def test_siblings_do_not_see_each_other(archive: Archive) -> None:
    """Each branch sees what both have in common, and its own turns."""
    before = commit_all(archive, [turn(1)])
    main = commit_all(archive, [turn(2, "one way"), turn(3, "further")], before)
    branch = commit_all(archive, [turn(2, "another"), turn(3, "farther")], before)

    assert visible(archive, main) == ["question 1", "one way", "further"]
    assert visible(archive, branch) == ["question 1", "another", "farther"]


def test_older_tip_does_not_see_later_turns(archive: Archive) -> None:
    """A tip sees its branch up to itself."""
    before = commit_all(archive, [turn(1), turn(2)])
    commit_all(archive, [turn(3)], before)

    assert visible(archive, Tip("main", 2, before.digest)) == ["question 1", "question 2"]
    assert archive.turns(OWNER, before, [3]) == ()


def test_old_tip_goes_on(archive: Archive) -> None:
    """After a fork the old branch goes on as main."""
    before = commit_all(archive, [turn(1)])
    main = commit_all(archive, [turn(2)], before)
    commit_all(archive, [turn(2, "another")], before)

    assert commit_all(archive, [turn(3)], main).branch == "main"


def test_fork_of_a_fork(archive: Archive) -> None:
    """A fork of a fork sees both parents up to where each was left."""
    one = commit_all(archive, [turn(1)])
    commit_all(archive, [turn(2), turn(3)], one)
    two = commit_all(archive, [turn(2, "second"), turn(3, "third")], one)
    three = Tip(two.branch, 2, archive.turns(OWNER, two, [2])[0].digest)

    tip = commit_all(archive, [turn(3, "other third"), turn(4)], three)

    assert visible(archive, tip) == ["question 1", "second", "other third", "question 4"]


def test_fork_before_the_first_turn(archive: Archive) -> None:
    """A fork before the first turn sees nothing of main."""
    commit_all(archive, [turn(1), turn(2)])

    record = archive.commit(OWNER, START, turn(1, "afresh"))

    assert record.origin == ("main", 0)
    assert visible(archive, record.tip) == ["afresh"]


def test_retry_finds_its_branch(archive: Archive) -> None:
    """A retry of what began a branch returns that branch's record."""
    before = commit_all(archive, [turn(1)])
    commit_all(archive, [turn(2)], before)
    record = archive.commit(OWNER, before, turn(2, "another"))

    assert archive.commit(OWNER, before, turn(2, "another")) == record


def test_retry_finds_its_branch_after_further_turns(archive: Archive) -> None:
    """A retry finds the beginning of its branch when the branch has gone on."""
    before = commit_all(archive, [turn(1)])
    commit_all(archive, [turn(2)], before)
    record = archive.commit(OWNER, before, turn(2, "another"))
    commit_all(archive, [turn(3)], record.tip)

    assert archive.commit(OWNER, before, turn(2, "another")) == record


def test_earlier_tip_of_equal_text_is_another_place(archive: Archive) -> None:
    """Turns of equal text are told apart: each fork sees the past up to its own tip."""
    same = [turn(1, "go on"), turn(2, "go on"), turn(3, "go on")]
    tip = commit_all(archive, same)
    first, second = Tip("main", 1, tip.digest), Tip("main", 2, tip.digest)
    early = archive.commit(OWNER, first, turn(4, "end"))
    late = archive.commit(OWNER, second, turn(4, "end"))

    assert visible(archive, early.tip) == ["go on", "end"]
    assert visible(archive, late.tip) == ["go on", "go on", "end"]


def test_going_back_over_a_jump_starts_a_branch(archive: Archive) -> None:
    """A number that was left out is not filled in afterwards on the same branch."""
    before = commit_all(archive, [turn(1)])
    commit_all(archive, [turn(5)], before)

    record = archive.commit(OWNER, before, turn(3))

    assert record.branch != "main"
    assert visible(archive, record.tip) == ["question 1", "question 3"]


def test_tips_names_every_branch(archive: Archive) -> None:
    """There is a tip for each branch, in the order of their names."""
    before = commit_all(archive, [turn(1)])
    main = commit_all(archive, [turn(2)], before)
    branch = commit_all(archive, [turn(2, "another")], before)

    assert archive.tips(OWNER) == tuple(sorted([main, branch], key=lambda tip: tip.branch))


def test_newest_is_the_branch_committed_to_last(archive: Archive) -> None:
    """The newest tip is that of the branch with the latest commit."""
    before = commit_all(archive, [turn(1)])
    commit_all(archive, [turn(2)], before)
    branch = commit_all(archive, [turn(2, "another"), turn(3)], before)

    assert archive.newest(OWNER) == branch


def test_efforts_of_a_sibling_are_invisible(archive: Archive) -> None:
    """An effort opened on one branch does not exist on the other, where its name is free."""
    before = commit_all(archive, [turn(1)])
    main = commit_all(archive, [turn(2, efforts=["a"], events=[opened("a")])], before)
    other = turn(2, "another", efforts=["b"], events=[opened("b")])
    branch = commit_all(archive, [other], before)

    assert archive.effort(OWNER, main, "b") is None
    assert archive.effort(OWNER, branch, "a") is None
    assert archive.effort_turns(OWNER, branch, "a") == ()
    assert archive.efforts(OWNER, branch, 10).total == 1


def test_ambient_turns_of_a_sibling_are_not_counted(archive: Archive) -> None:
    """Each branch counts and lists its own ambient turns and those it has in common."""
    before = commit_all(archive, [turn(1), turn(2)])
    main = commit_all(archive, [turn(3), turn(4), turn(5)], before)
    branch = commit_all(archive, [turn(3, "other", efforts=["a"]), turn(4, "x")], before)

    assert (archive.ambient_count(OWNER, main), archive.ambient(OWNER, main, 2)) == (5, (4, 5))
    assert archive.ambient_count(OWNER, branch) == 3
    assert archive.ambient(OWNER, branch, 9) == (1, 2, 4)
