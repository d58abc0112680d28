"""`ebbtide sessions`, `stats`, `settings` and `attention`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import Annotated, Any, Self

import typer
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from ..graph.all_commands import COMMANDS
from ..graph.config import NAMES, Keys, load
from ..memory.archive.protocol import Archive, Finding
from ..memory.attention.law import Explanation
from ..memory.dates import minute_of
from ..memory.errors import ArchiveFormatError, SessionNotFoundError
from ..memory.memories import UserMemories
from ..memory.metrics import MEANINGS, Cost, Report, prices_of, report
from ..memory.names import session_label
from ..memory.settings import Settings
from ..memory.transcript import clipped, first_words
from ..memory.turn import Session
from .home import AnySession, ConfigFile, Json, MemoryId, RequiredUser, Root, User, configured
from .printable import counted, discreet, in_line, print_json, printable
from .screen import print_part

_ROWS = 20
"""Turns in the table of `stats`: a screenful."""

_SHARES = ("false_decay_rate", "expansion_overhead", "savings_of_last_call")
"""The metrics in percent."""

_IN_SENTENCE = ("sent", "full_history", "savings_vs_full_history")
"""The metrics of the sentence above the table, which does not repeat them."""

Prices = Annotated[
    str | None,
    typer.Option(
        help="Dollars per million input, output and, if cheaper, cached tokens: 0.25,2.00,0.025."
    ),
]

_SAID = 50
"""Characters of the last message in the list of sessions."""

_TEXT = 120
"""Characters of a memory in the list of attention; `explain` shows all."""

_ANY = "any"
"""The range of a setting without limits."""

_SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
"""The signs of the limits that a setting can have, by their names in a JSON schema."""


@dataclass(frozen=True, slots=True)
class _Session:
    """A session and figures of its newest branch; they are None if it is damaged."""

    session: str
    turns: int | None = None
    efforts: int | None = None
    last_activity: str | None = None
    last_message: str = ""

    @classmethod
    def of(cls, archive: Archive, session: Session) -> Self:
        """Read the figures of a session."""
        name = session_label(session)
        try:
            branch = archive.load(session)
        except ArchiveFormatError:
            return cls(name)
        tip = branch.tip
        if tip is None:
            return cls(name, 0, 0)
        turns = branch.turns([tip.turn])
        efforts = branch.efforts(0).total
        if not turns:
            return cls(name, tip.turn, efforts)
        return cls(name, tip.turn, efforts, turns[0].at, first_words(turns[0].messages, _SAID))

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the row of the table."""
        if self.turns is None or self.efforts is None:
            return self.session, "unknown", "unknown", "see ebbtide archive verify", ""
        none = "unknown" if self.turns else "never"
        time = minute_of(self.last_activity) if self.last_activity else none
        return self.session, f"{self.turns:,}", f"{self.efforts:,}", time, self.last_message


def sessions(
    root: Root = None, user: User = None, config: ConfigFile = None, *, json: Json = False
) -> None:
    """List the sessions of a user."""
    home = configured(root, user, config)
    with home.archive() as archive:
        found = [_Session.of(archive, session) for session in archive.sessions(home.user)]
    if json:
        print_json(found)
        return
    names = _uncut("Thread", [shown.session for shown in found])
    table = Table(names, *_figures("Turns", "Efforts"), "Last activity", "Last message")
    for shown in found:
        table.add_row(*(Text(in_line(cell)) for cell in shown.cells()))
    page = table if table.row_count else Text(f"{home.no_sessions}.")
    print_part(page, Console(highlight=False))


def stats(  # noqa: PLR0913 (the options of a command)
    session: AnySession = None,
    root: Root = None,
    user: User = None,
    config: ConfigFile = None,
    prices: Prices = None,
    *,
    json: Json = False,
) -> None:
    """Show what the memory of a session did, and what its context cost."""
    rates = prices_of(prices) if prices is not None else None
    home = configured(root, user, config)
    console = Console(highlight=False)
    with home.archive() as archive:
        sessions = sessions_named(archive, home.user, session)
        if session is not None and archive.load(sessions[0]).tip is None:
            raise SessionNotFoundError(session)
        if json:
            print_json([_data(archive, one, rates) for one in sessions])
        elif not sessions:
            print_part(Text(f"{home.no_sessions}."), console)
        else:
            for one in sessions:
                for part in stats_page(session_label(one), _report(archive, one), rates):
                    print_part(part, console)


def sessions_named(archive: Archive, user: str, name: str | None) -> list[Session]:
    """Return the sessions of a user: all, or those whose label or thread is `name`."""
    sessions = archive.sessions(user)
    if name is None:
        return [*sessions]
    matches = [session for session in sessions if name in {session.thread, session_label(session)}]
    return matches or [Session(user, name)]  # unknown, or too damaged to be listed


def _report(archive: Archive, session: Session) -> Report:
    return report([*archive.load(session).every_commit()])


def _data(archive: Archive, session: Session, prices: Sequence[float] | None) -> dict[str, Any]:
    """Return the report of a session as data, with money if there are prices."""
    figures = _report(archive, session)
    money = {cost.purpose: cost.money(*prices) for cost in figures.costs} if prices else None
    return {"session": session_label(session), **asdict(figures), "money": money}


def stats_page(
    session: str, figures: Report, prices: Sequence[float] | None = None
) -> Iterator[RenderableType]:
    """Yield a sentence on a session, its metrics, its newest turns, and what models cost.

    Metrics of 0, and ratios of nothing, are left out.
    """
    yield Text(in_line(f"{session}: {_sentence(figures)}"))
    metrics = Table("Metric", *_figures("Value"), "What it says")
    for name, meaning in MEANINGS.items():
        if (value := getattr(figures, name)) and name not in _IN_SENTENCE:
            figure = _percent(value) if name in _SHARES else _figure(value)
            metrics.add_row(name.replace("_", " "), figure, meaning)
    turns = Table(
        *_figures("Turn", "Context", "Expanded", "Always\nexpanded", "Full\nhistory", "Saved")
    )
    for turn in figures.turns[-_ROWS:]:
        expanded = turn.parts.get("expanded", 0)
        values = (turn.total, expanded, turn.last_always_expanded, turn.last_full_history)
        # Before it saves anything, the instructions are most of a call.
        saves = turn.total <= turn.last_full_history
        turns.add_row(
            str(turn.turn), *map(_figure, values), _percent(turn.savings if saves else None)
        )
    costs = _costs(figures.costs, prices)
    yield from (table for table in (metrics, turns, costs) if table.row_count)


def _sentence(figures: Report) -> str:
    """Return what was sent, saved against the full history if that is known, and cached."""
    calls = sum(len(turn.calls) for turn in figures.turns)
    if not calls:
        return "nothing was sent yet."
    said = f"{figures.sent:,} tokens sent in {counted(calls, 'call')}"
    if (saved := figures.savings_vs_full_history) is not None:
        than = f"{'less' if saved >= 0 else 'more'} than the {figures.full_history:,}"
        said += f", {abs(saved):,.0%} {than} of full history"
    answers = [cost for cost in figures.costs if cost.purpose == "answer"]
    read, cached = sum(cost.read for cost in answers), sum(cost.cached for cost in answers)
    share = f"; {cached / read:.0%} of what the provider read was cached" if cached else ""
    return f"{said}{share}."


def _costs(costs: Sequence[Cost], prices: Sequence[float] | None) -> Table:
    """Return a table of the calls for each purpose, with money if there are prices."""
    names = ("Calls", "Read", "Cached", "Written", *(["Money"] if prices else []))
    table = Table("Asked for", *_figures(*names))
    for cost in costs:
        known = cost.unreported < cost.calls
        tokens = (cost.read, cost.cached, cost.written) if known else (None, None, None)
        money = [f"{cost.money(*prices):,.4f}" if known else "-"] if prices else []
        table.add_row(cost.purpose, f"{cost.calls:,}", *map(_figure, tokens), *money)
    if missing := sum(cost.unreported for cost in costs):
        table.caption = f"The provider reported no tokens for {missing:,} of these calls."
    return table


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:,.0%}"


def _figure(value: float | None) -> str:
    """Return a count with thousands separators, a ratio with two digits, a dash for None."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _figures(*headers: str) -> list[Column]:
    """Return columns whose figures are never broken."""
    return [Column(header, no_wrap=True) for header in headers]


def _uncut(header: str, names: Iterable[str]) -> Column:
    """Return a column whose names are never broken, since they are copied; see `fitted`."""
    longest = max((cell_len(in_line(name)) for name in names), default=0)
    return Column(header, no_wrap=True, min_width=longest)


def settings(*, config: ConfigFile = None, json: Json = False) -> None:
    """Show the current settings, and where each is set."""
    keys = load({}, path=config)
    width, schemas = Console().width, Keys.model_json_schema()["properties"]
    values = {**dict(keys.settings), "model": keys.model, "root": discreet(keys.root)}
    if json:
        sources = {name: keys.sources.get(name, "default") for name in NAMES}
        print_json({name: {"value": values[name], "source": sources[name]} for name in NAMES})
        return
    for name in NAMES:
        source = keys.sources.get(name, "default")
        meaning, limits = schemas[name]["description"], _range(schemas[name])
        meaning += f"; {limits}" if limits != _ANY else ""
        typer.echo(printable(f"{name}: {_value(values[name])} ({source})"))
        typer.echo(fill(meaning, width, initial_indent="  ", subsequent_indent="  "))


def settings_table() -> str:
    """Return a Markdown table with a row for each setting."""
    rows = (_row(*schema) for schema in Settings.model_json_schema()["properties"].items())
    return "\n".join(
        ("| setting | default | range | meaning |", "| --- | --- | --- | --- |", *rows)
    )


def _row(name: str, schema: Mapping[str, Any]) -> str:
    default = "none" if schema["default"] in {None, ""} else f"`{_value(schema['default'])}`"
    meaning = schema["description"].replace("|", "\\|")
    return f"| `{name}` | {default} | {_range(schema)} | {meaning} |"


def _value(value: object) -> str:
    """Return a value with its digits grouped as in source text."""
    if value is None:
        return "none"
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _range(schema: Mapping[str, Any]) -> str:
    """Return the choices of a setting, or the limits of its value."""
    kind = schema.get("anyOf", [schema])[0]  # the second is that of None
    choices = [f"`{choice}`" for choice in kind.get("enum", ())]
    limits = [f"{sign} {_value(kind[name])}" for name, sign in _SIGNS.items() if name in kind]
    return ", ".join(choices or limits) or _ANY


attention = typer.Typer(
    help="See what is in a user's attention, and why.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@attention.command("list")
def list_attention(
    root: Root = None, user: RequiredUser = None, config: ConfigFile = None, *, json: Json = False
) -> None:
    """List the memories in attention. The strongest come first, the suppressed ones last."""
    with configured(root, user, config).attention() as memory:
        memories = memory.in_attention()
    if json:
        print_json(memories)
    else:
        print_part(attention_table(memories), Console(highlight=False))


def _memory_command(function: Callable[[UserMemories, str], Explanation]) -> Callable[..., None]:
    """Return the command that calls this with a memory, and prints the state of the memory."""

    def command(
        memory_id: MemoryId,
        root: Root = None,
        user: RequiredUser = None,
        config: ConfigFile = None,
        *,
        json: Json = False,
    ) -> None:
        with configured(root, user, config).attention() as memories:
            memory = function(memories, memory_id)
        if json:
            print_json(memory)
        else:
            typer.echo("\n".join(explanation_page(memory)))

    return command


for _name, _function in {
    "explain": UserMemories.explain,
    "suppress": UserMemories.suppress,
    "unsuppress": UserMemories.unsuppress,
    "forget": UserMemories.delete,
}.items():
    attention.command(_name, help=COMMANDS[_name].help)(_memory_command(_function))


def attention_table(memories: Iterable[Explanation]) -> Table | Text:
    """Return a table with a row for each memory, or a line if there is none."""
    shown = [*memories]
    names = _uncut("Memory", [memory.id for memory in shown])
    table = Table(names, *_figures("Holds", "Level", "Accesses", "Fades"), "Text")
    for memory in shown:
        holds, accesses = f"{memory.effective:.1f}", f"{memory.accesses:,}"
        state = "suppressed" if memory.suppressed else memory.level
        text = clipped(memory.text, _TEXT)
        cells = (memory.id, holds, state, accesses, _fades(memory), text)
        table.add_row(*(Text(in_line(cell)) for cell in cells))
    return table if table.row_count else Text("nothing is in attention", style="dim")


def explanation_page(memory: Explanation) -> Iterable[str]:
    """Yield the state of a memory line by line, with the figures of the law of attention."""
    yield in_line(memory.id)
    if memory.text:
        yield in_line(memory.text)
    suppressed = ", suppressed" if memory.suppressed else ""
    yield f"holds {memory.effective:.1f} of 100: {memory.level}{suppressed}"
    accessed = f"accessed {counted(memory.accesses, 'time')}"
    yield f"base {memory.base}, {memory.days:.1f} days old, {accessed}"
    yield f"fades {_fades(memory)}" if memory.attended else "not in attention"


def finding_line(finding: Finding) -> str:
    """Return what `verify` finds at a place."""
    return in_line(f"  {finding.where}: {'' if finding.fatal else 'note: '}{finding.what}")


def _fades(memory: Explanation) -> str:
    return "never" if memory.fades is None else memory.fades.date().isoformat()
