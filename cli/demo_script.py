"""What the user of the demonstration says: a day of three pieces of work, a week of letters."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One turn: what is said, the heading above it, what to look at below it.

    `cut` stops the agent in the middle of this turn.
    """

    said: str
    scene: str = ""
    note: str = ""
    cut: bool = False


_GUARD = """\
This is the code that renews a session:

class SessionGuard:
    def __init__(self, tokens, clock, audit):
        self._tokens = tokens
        self._clock = clock
        self._audit = audit

    def renew(self, session):
        token = self._tokens.newest(session.user)
        if token is None or token.expired(self._clock.now()):
            self._audit.write("renewal refused", session.user)
            raise LoggedOut(session.user)
        self._tokens.revoke(token)
        fresh = self._tokens.issue(session.user, scope=token.scope)
        session.bind(fresh)
        self._audit.write("session renewed", session.user)
        return fresh

    def close(self, session):
        for token in self._tokens.all(session.user):
            self._tokens.revoke(token)
        session.unbind()
        self._audit.write("session closed", session.user)

    def sweep(self):
        for token in self._tokens.stale(self._clock.now()):
            self._tokens.revoke(token)

class MobileSession:
    def __init__(self, guard, keychain):
        self._guard = guard
        self._keychain = keychain

    def wake(self, session):
        if self._keychain.locked():
            return session
        fresh = self._guard.renew(session)
        self._keychain.store(session.user, fresh)
        return session"""

_PLAN = """\
This is the plan as it stands:

CREATE TABLE orders_next (LIKE orders INCLUDING ALL);
ALTER TABLE orders_next ADD COLUMN currency text NOT NULL DEFAULT 'EUR';
CREATE TRIGGER orders_mirror AFTER INSERT OR UPDATE OR DELETE ON orders
  FOR EACH ROW EXECUTE FUNCTION mirror_order();

INSERT INTO orders_next SELECT *, 'EUR' FROM orders WHERE id BETWEEN :low AND :high
  ON CONFLICT (id) DO NOTHING;

LOCK TABLE orders IN ACCESS EXCLUSIVE MODE;
ALTER TABLE orders RENAME TO orders_old;
ALTER TABLE orders_next RENAME TO orders;
DROP TRIGGER orders_mirror ON orders_old;

Writers keep writing to the old table while the copy runs, and the trigger mirrors them.
The reporting jobs read from the replica, so nobody waits for them.
Invoices keep their own amounts and are left alone.
The copy goes from the newest order to the oldest, since the newest are read most.
If the copy falls behind by more than a minute, it pauses until the replica has caught up.
The old table stays for a week and is dropped by hand."""

_SURVEY = """\
Here is what people wrote in the survey:
Amira wants to be near the sea and would rather cook than eat out.
Bastian sleeps badly in dormitories and asks for a room with a door.
Chloe comes by bicycle, whatever the weather.
Dmitri eats no fish and no nuts, and he is serious about the nuts.
Elif would like one evening without a programme.
Femi brings the projector, the long cable and the board games.
Greta can only come if the dog can come, and the dog is friendly.
Hassan has driven the minibus before and would do it again.
Ines asks for a step-free entrance because of her knee.
Most would like to walk to the old light and see the seals on the way back.
Nobody wants a workshop, three want a short talk about the roadmap, and all want a bonfire."""

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


SCRIPT = (
    Line("Hello!", "Small talk belongs to no effort"),
    Line("It is raining again, I will need an umbrella tonight."),
    Line(
        "Let's work on the auth bug: active users are logged out again and again.",
        "Three pieces of work",
        "The request that opens an effort is the first message in its log.",
    ),
    Line(_GUARD),
    Line("The refresh token lives 3600 seconds, but the session cookie lives 86400."),
    Line("The stack trace ends in SessionGuard.renew, which only the mobile client calls."),
    Line(
        "Let's work on the database migration: give orders a currency without downtime.",
        note="The auth bug stays open, and what was said of it stays in view.",
    ),
    Line(_PLAN),
    Line("The rehearsal happens on the machine called heron, with last week's backup."),
    Line("We agreed on batches of 5000 rows, since 50000 lock the table too long."),
    Line("Let's work on the team trip: two days by the sea for nine people."),
    Line(_SURVEY),
    Line("We decided on October because the ferry runs until the 31st."),
    Line("Switch to the auth bug. We will rotate the refresh token whenever it is used."),
    Line("The fix is in build 4.18.2, and all tests pass."),
    Line(
        "That's done.",
        "A piece of work ends",
        "The log leaves the context. What stays is one line of summary (memory).",
    ),
    Line(
        "How long does the refresh token live?",
        note="The summary says it, so nothing has to be loaded.",
    ),
    Line(
        "Where does the stack trace of the auth bug end?",
        "A detail that the summary does not hold",
        "The log came back (expanded), word for word, and answered.",
    ),
    Line("Collapse the auth bug.", note="Back to the summary. The log is where it was: on disk."),
    Line("Switch to the database migration.", "Stopped in the middle of a turn"),
    Line("Copying 1200000 rows took 47 minutes, and we agreed to go live on Sunday."),
    Line(
        "That's done.",
        note="The turn was completed, once. Nothing was lost, nothing was done twice.",
        cut=True,
    ),
    Line("Reopen the auth bug. One customer is still logged out.", "Concluded work goes on"),
    Line("It is the old app: version 3.9 never stores the new token. We must force an update."),
    Line("That's done.", note="The new summary covers the whole log, before and after reopening."),
    Line(
        "We agreed on the lighthouse hostel because 9 beds cost 38 euros there, instead of 61.",
        "The end of the day",
    ),
    Line("We decided that Hassan drives, because he must only be at the depot at 8:15."),
    Line("Elif decided to come on Friday night, because the last train leaves at 22:40."),
    Line("Wrap up the team trip."),
    Line("Which machine does the rehearsal of the database migration happen on?"),
    Line(
        "The bakery on the corner opens at six now.",
        "What nobody mentions leaves by itself",
    ),
    Line("My bicycle needs a new chain."),
    Line(
        "The neighbours have a second cat.",
        note="Three turns without a word about it: the log collapsed by itself.",
    ),
    Line("There is soup left from yesterday."),
    Line("The lift is out of order again."),
    Line("The library is closed on Fridays."),
    Line("Somebody left a red scarf in the hall."),
    Line(
        "The tram was late this morning.",
        note="Eight turns without a word: the summaries have left (here after 8 turns, not 20).",
    ),
    Line(
        "Until when does our ferry run?",
        "Found again",
        "The context did not know. The search found the effort, and its summary says it.",
    ),
    Line(
        "Expand the auth bug.",
        note="Back in the context: the summary, and the log as it was.",
    ),
    Line("Collapse the auth bug."),
    Line("Thank you, see you tomorrow."),
    *_letters(),
)
"""The turns, in order; the offline model follows them by its rules."""
