"""What the user of the demonstration says: a day of three pieces of work, a week of letters."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Line:
    """One turn: what is said, the heading above it, what to look at below it.

    `cut` stops the agent in the middle of this turn.
    """

    said: str
    scene: str = ""
    note: str = ""
    cut: bool = False


_WHO = (
    *("Harbour Books", "the Lindqvist bakery", "Okafor & Daughters", "the school in Tarn"),
    *("Miller's garage", "the film club", "Dr. Sato's practice", "the ferry office"),
    *("Penrose Tiles", "the youth hostel", "Ximena's flower shop"),
)
_WHAT = (
    "the invoice of last month came twice, and both copies have the same number",
    "the export of the addresses stops after the letter M, without a word of warning",
    "the calendar shows every appointment an hour late since the clocks went back",
    "the new colleague cannot sign in, although the invitation was accepted on Tuesday",
    "the pictures in the catalogue are upside down on telephones, and nowhere else",
    "the reminder goes out to people who have paid long ago, which is embarrassing",
    "the search finds nothing that has an umlaut in it, so half of the names are lost",
)
_TRIED = (
    "They have signed out and in again, and changed to another browser, without any effect.",
    "It worked until the update of the fourteenth, they say, and they have the old file.",
    "A neighbour with the same plan does not have it, which makes it stranger.",
    "They have sent three pictures of the screen, and a list of the days on which it happened.",
    "It happens in the morning only, when everybody is at work in it.",
)
_HOW = (
    "give back the fee of the month, because they had to do the work twice",
    "mend it in the next release, since it can wait until then",
    "call them on Monday, because they would rather talk than write",
    "send them the corrected file by hand, so that they can go on today",
)
_ASKED = (
    """\
They ask how long it will take, and whether they have to tell their own customers of it. They have
about four hundred, and most of them would not notice, but the forty who pay by the month would.""",
    """\
They were patient with us in spring, when the whole list was gone for two days and was typed in
again from paper. We said then that it would not happen a second time, and they remind us of it.""",
    """\
Somebody there has built a table of her own to get around it, with a colour for each line that is
checked. It takes her an hour every evening, and she would like to throw it away.""",
    """\
They do not want money for it, they want to know what it was and that it will not come again. A call
is enough, in the office until noon and after that on the mobile number that stands in the file.""",
    """\
They asked the same a month ago, and nobody has answered; that letter is attached to this one. It
was sent to the old address, which still takes letters and which nobody has read since the move.""",
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday")
_A_DAY = 18
"""Letters of a day: an effort of that many turns, four of which make a long talk."""


def _letters() -> Iterator[Line]:
    """Yield a week at the support desk: each day's letters are an effort of their own."""
    ticket = 4100
    for day in _DAYS:
        scene = "A week of letters, one effort a day" if day == _DAYS[0] else ""
        yield Line(f"Let's work on the {day} letters: answer what came in.", scene)
        for _ in range(_A_DAY):
            ticket += 1
            lists = (_WHO, _WHAT, _TRIED, _ASKED, _HOW)
            who, what, tried, asked, how = (one[ticket % len(one)] for one in lists)
            said = f"{what}. {tried} {asked} We decided to {how}."
            yield Line(f"Ticket {ticket} is from {who}: {said}")
        yield Line("That's done.")
    yield Line(
        "What did we hear from Miller's garage about the embarrassing reminder?",
        "One letter of all these",
        "It had left the context. The search found it in the log, word for word, with its turn.",
    )


def _day(text: str) -> Iterator[Line]:
    """Yield the turns of `demo.md`: a heading begins a scene, a quote is what is said.

    A paragraph below it is the note, and a line across cuts the turn above.
    """
    scene, turns = "", list[Line]()
    for block in text.strip().split("\n\n")[1:]:
        if block.startswith("## "):
            scene = block.removeprefix("## ")
        elif block.startswith(">"):
            said = "\n".join(line[2:] for line in block.splitlines())
            turns.append(Line(said, scene))
            scene = ""
        else:
            cut = block == "---"
            turns[-1] = replace(turns[-1], **({"cut": True} if cut else {"note": block}))
    yield from turns


SCRIPT = (
    *_day(files(__package__).joinpath("demo.md").read_text(encoding="utf-8")),
    *_letters(),
)
"""The turns, in order; the offline model follows them by its rules."""
