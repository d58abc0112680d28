"""What the user of the demonstration says: a day of three pieces of work."""

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
        note="The auth bug stays open. It is now a tier of its own (open) beside the active one.",
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
        "The log has left the context. What stays is one line of summary (memory).",
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
        "The context did not know. The search found it in the log, word for word, with its turn.",
    ),
    Line(
        "Expand the auth bug.",
        note="Back in the context: the summary, and the log as it was.",
    ),
    Line("Collapse the auth bug. Thank you, see you tomorrow."),
)
"""The turns, in order; the offline model follows them by its rules."""
