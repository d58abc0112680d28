"""Earlier sessions for tests: another thread of the same user that concluded an effort."""

from ebbtide.memory.tools.summary import EffortSummary
from tests.memory.conversations import Conversation

FIX = "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor."
LOG = ("The login fails with error 401 all the time.", "The interceptor belongs in api.ts now.")
"""What the user said in turns 2 and 3 of the earlier session."""


def earlier(
    talk: Conversation,
    thread: str = "t1",
    name: str = "auth-bug",
    summary: str = FIX,
    user: str = "ada",
) -> Conversation:
    """Go through an earlier session: a turn of small talk, then two of an effort."""
    before = talk.beside(thread, user)
    before.turn("My cat is called Minka.", answer="A nice name.")
    conclude(before, name, summary)
    return before


def conclude(before: Conversation, name: str, summary: str, keyword: str = "auth") -> None:
    """Open an effort in one turn, and conclude it in the next with this summary."""
    before.replies.append(EffortSummary(summary=summary, keywords=[keyword], importance=80))
    before.effort(name, *LOG)


def archived(talk: Conversation) -> str:
    """Return all that the archive holds of the turns of a conversation."""
    turns = talk.archive.load(talk.session, talk.tip).turns(range(1, talk.tip.turn + 1))
    return repr(turns)
