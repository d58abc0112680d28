"""Sessions as folders: what is exported comes back as it was, on every database."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.memory.archive.folder import export, import_folder
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.archive.transfer import Moved, read
from ebbtide.memory.errors import ArchiveError, ArchiveFormatError, SessionNotFoundError
from ebbtide.memory.record import Owner, Tip
from tests.draws import examples
from tests.memory.archive.whole_sessions import (
    EFFORTS,
    NAMES,
    OWNERS,
    SAID,
    all_of,
    attention,
    commit_session,
    commit_sessions,
    seen_by_tips,
    sessions_of,
)
from tests.memory.turns import OWNER, commit_all, concluded, opened, turn

RAW, STATES, MANIFEST = "raw.jsonl", "states.jsonl", "manifest.yaml"


def exported(archive: SqlArchive, folder: Path) -> Path:
    """Write each session of an archive to a folder of its own."""
    for number, owner in enumerate(all_of(archive)):
        export(archive, owner, folder / str(number))
    return folder


def lines(path: Path) -> list[Any]:
    """Return what the lines of a file say."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def changed(path: Path, change: Callable[[str], str]) -> None:
    """Change the text of a file."""
    path.write_text(change(path.read_text("utf-8")), "utf-8")


def test_all_sessions_of_all_users_come_back(
    archive: SqlArchive, another: SqlArchive, tmp_path: Path
) -> None:
    """All data of three users is there again, digest by digest and row by row."""
    commit_sessions(archive)

    moved = import_folder(another, exported(archive, tmp_path / "out"))

    assert {one.owner for one in moved} == {*OWNERS}
    assert {(one.turns, one.fresh, one.findings) for one in moved} == {(12, True, ())}
    assert all_of(another) == all_of(archive)


def test_what_was_imported_is_as_if_committed(
    archive: SqlArchive, another: SqlArchive, tmp_path: Path
) -> None:
    """Every tip sees the same turns, counts, efforts and states, finds the same, and goes on."""
    tips = {owner: commit_session(archive, owner) for owner in OWNERS}

    import_folder(another, exported(archive, tmp_path / "out"))

    assert sessions_of(another) == sessions_of(archive)
    assert {owner: another.newest(owner) for owner in OWNERS} == tips
    assert {owner: another.reseeding(owner) for owner in OWNERS} == tips
    after, before = (
        [one.commit(owner, tip, turn(9)) for owner, tip in tips.items()]
        for one in (another, archive)
    )
    assert after == before


def test_lines_are_those_of_the_first_build(disk: SqlArchive, tmp_path: Path) -> None:
    """A turn of several efforts stands in the first one's file, and by reference in the others."""
    groups = [turn(1), turn(2, "", ["a", "b"], [opened("a"), opened("b")]), turn(3, "", ["b"])]
    tip = commit_all(disk, groups)

    export(disk, OWNER, tmp_path / "out")

    assert [line["turn"] for line in lines(tmp_path / "out" / RAW)] == [1]
    assert lines(tmp_path / "out/efforts/a.jsonl")[0] == {
        "v": 1,
        "turn": 2,
        "branch": "main",
        "from": None,
        "parent": disk.turns(OWNER, tip, [1])[0].digest,
        "digest": disk.turns(OWNER, tip, [2])[0].digest,
        "efforts": ["a", "b"],
        "status": "done",
        "at": groups[1].at,
        "messages": list(groups[1].messages),
        "events": list(groups[1].events),
    }
    assert lines(tmp_path / "out/efforts/b.jsonl")[0] == {
        "v": 1,
        "ref": {"branch": "main", "turn": 2, "file": "efforts/a.jsonl"},
    }


def test_the_manifest_is_for_people(disk: SqlArchive, tmp_path: Path) -> None:
    """The manifest is YAML in block form, with an entry for each change of an effort."""
    commit_all(disk, [turn(1, "", ["a"], [opened("a")]), turn(2, "", ["a"], [concluded("a", "x")])])

    export(disk, OWNER, tmp_path / "out")

    text = (tmp_path / "out" / MANIFEST).read_text("utf-8")
    assert text.startswith("- id: a\n  status: open\n")
    assert [entry["status"] for entry in yaml.safe_load(text)] == ["open", "concluded"]


def test_no_name_leaves_the_folder(disk: SqlArchive, tmp_path: Path) -> None:
    """Whatever an effort is called, its file lies in the folder, under a name of its own."""
    commit_session(disk, OWNER)

    export(disk, OWNER, tmp_path / "out")

    files = [path for path in tmp_path.rglob("*.jsonl") if "disk" not in path.parts]
    assert {path.parent for path in files} == {tmp_path / "out", tmp_path / "out/efforts"}
    assert len([*(tmp_path / "out/efforts").iterdir()]) == len(EFFORTS) + 2


def test_nothing_erased_is_exported(disk: SqlArchive, tmp_path: Path) -> None:
    """No file holds what was erased, and the turn is a tombstone when it comes back."""
    commit_session(disk, OWNER)

    export(disk, OWNER, tmp_path / "out")

    texts = [path.read_text("utf-8") for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert [text for text in texts if SAID in text or "login is mended" in text] == []
    assert sum('"status":"erased"' in text for text in texts) == 1


def test_only_new_or_empty_folders_are_written(disk: SqlArchive, tmp_path: Path) -> None:
    """A folder that holds something, or a file, is an error and stays as it is."""
    commit_all(disk, [turn(1)])
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("mine", "utf-8")

    for name in ("full", "full/mine"):
        with pytest.raises(ArchiveError, match="is not empty"):
            export(disk, OWNER, tmp_path / name)
    with pytest.raises(SessionNotFoundError):
        export(disk, Owner("bob", "t1"), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "full"]


def test_a_session_that_is_there_is_not_doubled(
    archive: SqlArchive, another: SqlArchive, tmp_path: Path
) -> None:
    """The same session imported again changes nothing and is no error."""
    commit_sessions(archive)
    folder = exported(archive, tmp_path / "out")
    import_folder(another, folder)

    again = import_folder(another, folder)

    assert {one.fresh for one in again} == {False}
    assert all_of(another) == all_of(archive)


def test_other_records_are_an_error(archive: SqlArchive, tmp_path: Path) -> None:
    """A session that is there with other records stays, and the others are taken over."""
    commit_sessions(archive)
    folder = exported(archive, tmp_path / "out")
    for owner in OWNERS[1:]:
        archive.delete_session(owner)
    archive.commit(OWNERS[0], archive.newest(OWNERS[0]) or Tip(), turn(9, "it went on"))
    before = read(archive, OWNERS[0])
    reports: list[Moved] = []

    with pytest.raises(ArchiveError, match=r"'t1' of 'ann' is there already .* records \(1"):
        import_folder(archive, folder, reports.append)

    assert read(archive, OWNERS[0]) == before
    assert {report.owner for report in reports} == {*OWNERS[1:]}


def test_what_was_erased_since_is_not_brought_back(disk: SqlArchive, tmp_path: Path) -> None:
    """A folder from before an erasure has other records: the text does not come back."""
    tip = commit_all(disk, [turn(1), turn(2, SAID), turn(3)])
    export(disk, OWNER, tmp_path / "out")
    disk.erase(OWNER, tip, 2)

    with pytest.raises(ArchiveError, match="turn 2 of branch 'main'"):
        import_folder(disk, tmp_path / "out")

    assert disk.turns(OWNER, tip, [2])[0].status == "erased"


def _cut(text: str) -> str:
    return text[: len(text) // 2]


def _replace(old: str, new: str) -> Callable[[str], str]:
    """Return a change of a part of the text."""
    return lambda text: text.replace(old, new)


def _with(**values: Any) -> Callable[[str], str]:
    """Return a change of values in the first line."""

    def change(text: str) -> str:
        first, _, rest = text.partition("\n")
        return f"{json.dumps(json.loads(first) | values)}\n{rest}"

    return change


def _with_keys(**values: Any) -> Callable[[str], str]:
    """Return a change of values in a file of one object."""
    return lambda text: json.dumps(json.loads(text) | values)


def _first_lost(text: str) -> str:
    return text.partition("\n")[2]


NO_TURNS: list[dict[str, Any]] = [
    *({"turn": wrong} for wrong in (float("inf"), 2**63, 1.5, "1", True, None)),
    *({"from": wrong} for wrong in (["nix", 3], ["main", -1], ["main", 10**30])),
    *({"efforts": wrong} for wrong in ("abc", [5])),
    *({"at": wrong} for wrong in ("zzz", "", None)),
    *({"branch": wrong} for wrong in (5, None, "a\0")),
    *({"status": "odd"}, {"parent": None}, {"digest": 5}),
    {"events": [{"type": "concluded", "effort": 5, "summary": "x"}]},
    {"events": [opened("a", tokens=float("inf"))]},
]
NO_MEMORIES: list[dict[str, Any]] = [
    *({"base": wrong} for wrong in (10**30, float("inf"), -5, 0.5)),
    *({"accesses": 10**30}, {"created": "never"}, {"keywords": "abc"}),
    *({"memory": wrong} for wrong in ("other/a", "a", "")),
]
DAMAGE = [
    (RAW, _cut, r"raw.jsonl:2: damaged"),
    (RAW, _replace("hello", "hullo"), r"raw.jsonl:1: damaged: the digest does not match"),
    (RAW, lambda text: text + text, r"raw.jsonl:4: damaged: it stands in .*raw.jsonl:1 already"),
    (RAW, _first_lost, r"states.jsonl: damaged: turn 1 of 'main' is in no log"),
    (RAW, _replace('"parent":"', '"parent":"0'), ":1: damaged: the parent of turn 1 is missing"),
    (RAW, _replace('"turn":1', '"turn":9999999999'), r"raw.jsonl:1: damaged"),
    (RAW, _replace('{"v":1', '{"v":2'), r"raw.jsonl:1: damaged"),
    (RAW, _replace('"type":"human"', '"type":7'), r"raw.jsonl:1: damaged"),
    (RAW, _replace("hello", "\\ud800"), r"raw.jsonl:1: damaged"),
    (RAW, _replace('"events":[]', '"events":[{}]'), r"raw.jsonl:1: damaged"),
    (RAW, lambda text: f"[{text}", r"raw.jsonl:1: damaged"),
    ("efforts/b.jsonl", _replace("efforts/a", "raw"), r"b.jsonl:3: damaged"),
    ("efforts/a.jsonl", _first_lost, "damaged: the turn is not in 'efforts/a.jsonl'"),
    ("efforts/a.jsonl", _replace('"main",3', '"main",0'), "damaged: "),
    ("compressed.jsonl", _cut, r"compressed.jsonl:1: damaged"),
    ("extractions.jsonl", lambda _: '{"v":1}\n', r"extractions.jsonl:1: damaged"),
    ("attention.jsonl", _replace('"base":', '"b":'), r"attention.jsonl:1: damaged"),
    (STATES, _replace('"turn":1,', ""), r"states.jsonl:1: damaged"),
    *((RAW, _with(**values), r"raw.jsonl:1: damaged") for values in NO_TURNS),
    *(
        ("attention.jsonl", _with(**values), r"attention.jsonl:1: damaged")
        for values in NO_MEMORIES
    ),
    ("compressed.jsonl", _with(branch=None), r"compressed.jsonl:1: damaged"),
    ("extractions.jsonl", _with(turn=10**30), r"extractions.jsonl:1: damaged"),
    (STATES, _with(state=5), r"states.jsonl:1: damaged: state: .* \(got 5\)"),
    (STATES, _with(turn=float("inf")), r"states.jsonl:1: damaged"),
    ("erased.json", lambda _: '[{"branch": [], "turn": {}}]', "erased.json: damaged: 0.branch"),
    *(
        ("session.json", _with_keys(reseed=wrong), "is damaged or missing|is none of its turns")
        for wrong in ([1], "abc", ["main", 10**30, "x"], ["nix", 7, "x"], [[], 1, "x"])
    ),
    ("erased.json", _cut, "erased.json: damaged"),
    ("session.json", _cut, "session.json: damaged"),
    ("session.json", _replace('"user"', '"u"'), "session.json' is damaged or"),
    ("session.json", lambda _: '"text"', "session.json' is damaged or"),
    ("efforts/b.jsonl", _with(ref=1), r"b.jsonl:1: damaged: Input should be a valid dictionary"),
    ("session.json", _replace(": 1,", ": 2,"), "session.json' is of a newer format"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a session that has everything."""
    folder = tmp_path_factory.mktemp("whole")
    with SqlArchive(folder / "disk", durable=False) as disk:
        commit_session(disk, OWNER)
        export(disk, OWNER, folder / "out")
    return folder / "out"


@pytest.mark.parametrize(("name", "change", "said"), DAMAGE)
def test_damage_is_named_and_nothing_is_imported(
    whole: Path, tmp_path: Path, name: str, change: Callable[[str], str], said: str
) -> None:
    """A damaged line is an error that names file and line, and nothing of its session is there."""
    copytree(whole, tmp_path / "out")
    changed(tmp_path / "out" / name, change)

    with SqlArchive(tmp_path / "new", durable=False) as new:
        with pytest.raises(ArchiveFormatError, match=said):
            import_folder(new, tmp_path / "out")

        assert (new.users(), new.sessions("ann")) == ((), ())


def test_a_log_that_is_no_file_is_named(disk: SqlArchive, tmp_path: Path) -> None:
    """What cannot be opened is an error of the archive's that names it."""
    commit_session(disk, OWNER)
    export(disk, OWNER, tmp_path / "out")
    (tmp_path / "out" / RAW).unlink()
    (tmp_path / "out" / RAW).mkdir()

    with pytest.raises(ArchiveError, match=r"cannot be read: .*raw\.jsonl"):
        import_folder(disk, tmp_path / "out")


def test_a_damaged_session_stops_no_other(disk: SqlArchive, tmp_path: Path) -> None:
    """The other sessions of the folder are taken over, and the error comes at the end."""
    commit_sessions(disk)
    folder = exported(disk, tmp_path / "out")
    changed(folder / "0" / RAW, _cut)

    with SqlArchive(tmp_path / "new", durable=False) as new:
        with pytest.raises(ArchiveFormatError, match=r"0/raw.jsonl:2"):
            import_folder(new, folder)

        assert len(all_of(new)) == len(OWNERS) - 1


def test_several_damaged_sessions_are_all_named(disk: SqlArchive, tmp_path: Path) -> None:
    """One error names each session that could not be taken over."""
    commit_sessions(disk)
    folder = exported(disk, tmp_path / "out")
    changed(folder / "0" / RAW, _cut)
    (folder / "1/session.json").unlink()

    with (
        SqlArchive(tmp_path / "new", durable=False) as new,
        pytest.raises(ArchiveError, match=r"0/raw.jsonl:2.*1/session.json"),
    ):
        import_folder(new, folder)


def test_an_unfinished_export_is_no_session(disk: SqlArchive, tmp_path: Path) -> None:
    """A folder without `session.json` is an error that says what to write there."""
    commit_session(disk, OWNER)
    export(disk, OWNER, tmp_path / "out")
    (tmp_path / "out/session.json").unlink()

    with pytest.raises(ArchiveFormatError, match=r"session.json' is damaged or missing: .*format"):
        import_folder(disk, tmp_path / "out")


@pytest.mark.parametrize(("name", "said"), [("nowhere", "is no folder"), ("disk", "no session")])
def test_a_folder_without_sessions_is_an_error(
    disk: SqlArchive, tmp_path: Path, name: str, said: str
) -> None:
    """A folder that is not there, or that holds none, is an error that says so."""
    commit_all(disk, [turn(1)])

    with pytest.raises(ArchiveError, match=said):
        import_folder(disk, tmp_path / name)


@pytest.mark.parametrize("owner", [OWNER, Owner("default", "t1")])
def test_without_attention_the_turns_say_it(
    archive: SqlArchive, another: SqlArchive, tmp_path: Path, owner: Owner
) -> None:
    """A folder without `attention.jsonl` gives the memories that its turns make."""
    commit_session(archive, owner)
    export(archive, owner, tmp_path / "out")
    (tmp_path / "out/attention.jsonl").unlink()

    import_folder(another, tmp_path / "out")

    memories, original = attention(another, owner), attention(archive, owner)
    assert [memory["memory"] for memory in memories] == (
        [] if owner.anonymous else ["t1/a", "t1/b"]
    )
    numbers = itemgetter("base", "created", "accesses", "withdrawn")
    assert [numbers(memory) for memory in memories] == [numbers(memory) for memory in original]


def test_an_erasure_of_an_unknown_turn_is_ignored(disk: SqlArchive, tmp_path: Path) -> None:
    """A loss noted of a turn that the folder does not have changes nothing."""
    commit_all(disk, [turn(1)])
    export(disk, OWNER, tmp_path / "out")
    losses = [{"branch": "main", "turn": 9, "digest": "0", "content": "1"}]
    (tmp_path / "out/erased.json").write_text(json.dumps(losses), "utf-8")

    with SqlArchive(tmp_path / "new", durable=False) as new:
        assert [one.fresh for one in import_folder(new, tmp_path / "out")] == [True]


def test_what_a_manifest_says_does_not_count(disk: SqlArchive, tmp_path: Path) -> None:
    """A manifest that is no YAML changes nothing: the session is read from its records."""
    commit_all(disk, [turn(1, "", ["a"], [opened("a")])])
    export(disk, OWNER, tmp_path / "out")
    changed(tmp_path / "out" / MANIFEST, lambda _: "- [")

    (moved,) = import_folder(disk, tmp_path / "out")

    assert (moved.fresh, moved.findings) == (False, ())


TEXTS = st.text(max_size=12) | st.sampled_from(NAMES)
EVENTS = st.lists(
    st.builds(opened, TEXTS, goal=TEXTS)
    | st.builds(concluded, TEXTS, TEXTS, keywords=st.lists(TEXTS, max_size=2))
    | st.just({"type": "switched", "effort": "a"}),
    max_size=2,
)
STATE = st.none() | st.dictionaries(TEXTS, TEXTS | st.integers() | st.lists(TEXTS), max_size=2)
GROUPS = st.lists(
    st.tuples(st.integers(0, 9), TEXTS, st.lists(TEXTS, max_size=3), EVENTS, STATE), max_size=8
)
ANY_OWNER = st.builds(Owner, st.text(max_size=40) | st.sampled_from(NAMES), TEXTS, TEXTS)


@contextmanager
def _two() -> Iterator[tuple[SqlArchive, SqlArchive, Path]]:
    with TemporaryDirectory() as folder:
        path = Path(folder)
        with (
            SqlArchive(path / "from", durable=False) as one,
            SqlArchive(path / "to", durable=False) as two,
        ):
            yield one, two, path / "out"


@settings(max_examples=examples(8))
@given(owner=ANY_OWNER, drawn=GROUPS.filter(bool))
def test_any_session_comes_back(owner: Owner, drawn: list[Any]) -> None:
    """Turns of any texts, names, events and states, committed after any earlier turn, come back."""
    with _two() as (one, two, folder):
        tips = [Tip()]
        for back, said, efforts, events, state in drawn:
            tip = tips[max(0, len(tips) - 1 - back)]
            group = replace(turn(tip.turn + 1, said, efforts, events), state=state)
            tips.append(one.commit(owner, tip, group).tip)
        one.erase(owner, tips[-1], tips[-1].turn)

        export(one, owner, folder)
        import_folder(two, folder)

        assert all_of(two) == all_of(one)
        assert seen_by_tips(two, owner) == seen_by_tips(one, owner)
        assert [finding for finding in two.verify(owner) if finding.fatal] == []


def test_an_effort_with_slashes_comes_back() -> None:
    """What a memory is of is told by the name of its session, whatever the effort is called."""
    with _two() as (one, two, folder):
        commit_all(one, [turn(1, "", ["a/b"], [opened("a/b"), concluded("a/b", "Done.")])])

        export(one, OWNER, folder)
        import_folder(two, folder)

        assert all_of(two) == all_of(one)
        assert b'"t1/a/b"' in (folder / "attention.jsonl").read_bytes().replace(b" ", b"")
