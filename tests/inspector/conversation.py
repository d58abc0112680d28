"""A conversation in which memory ebbs and returns, for pictures and questions about it."""

_SUBJECTS = (
    "The team has lunch at half past twelve",
    "The new printer is on the second floor",
    "Ines is back from Lisbon on Tuesday",
    "The office plants want water",
    "The coffee machine takes beans again",
    "Our stand at the fair is number 14",
    "The train at 17:40 was on time today",
    "Somebody left a blue umbrella",
    "The window in the corner does not close",
    "The bakery next door has a new owner",
    "A parcel for Tom is at the desk",
    "The lights go off at nine",
    "The lift is under repair until noon",
    "The summer party is on the roof",
)

_DETAILS = (
    " Please note it for the others: whoever comes in early reads the board first, then the mail,"
    " and asks at the desk only if neither says anything. Tom keeps the list, Ines has the key, and"
    " the people on the second floor were told yesterday, though two of them were away and read it"
    " only this morning. Nobody has to answer; it is enough if it is known when somebody asks."
) * 4

EBB_AND_RETURN = (
    "Let's work on the auth bug",
    "The token expires after 3600 s, and nobody refreshes it.",
    "We decided that an axios interceptor asks for a new token on a 401. " * 6,
    "That's done",
    "What is new today?",
    "Show me the log of the auth bug",
    "How long does the token live?",
    "Let's work on the late parcel",
    "Parcel 4711 is three days late, the customer wants a refund. " * 8,
    "Tell me about the weather.",
    "That's done",
    *(f"{subject}.{_DETAILS}" for subject in _SUBJECTS),
    *(f"{subject}, as I said.{_DETAILS}" for subject in _SUBJECTS),
    "What did we decide about the auth bug?",
    "Show me the log of the auth bug",
    "Thanks, that helps.",
    "Let's work on the release notes",
    "They name the refresh of tokens and the refund of parcel 4711.",
    *(f"{subject}, once more.{_DETAILS}" for subject in _SUBJECTS[:8]),
)
"""What a user says: an effort is concluded, expanded, collapses, leaves, and comes back."""
