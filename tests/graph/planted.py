"""Statements planted in a long conversation: what holds to its end, and what is revised."""

CONSTRAINTS = (
    "The migration must never lock the orders table.",
    "All exports have to stay inside the European Union.",
    "Passwords must not appear in any log.",
    "The old client 2.4 has to keep working until March.",
    "Nobody may deploy on a Friday.",
    "Every endpoint must answer within 300 ms.",
    "Invoices are never deleted, only cancelled.",
    "The nightly report must be there before 6:00.",
    "Only the billing team may change prices.",
    "Personal data is kept for 90 days at most.",
    "The public API must stay backward compatible.",
    "Each release needs a rollback plan.",
    "We must not call the payment provider from tests.",
    "付款服务绝不能在夜间重启。",
    "Backups have to be encrypted with the key of the customer.",
    "Support has to answer within one working day.",
    "No more than 4 workers may write to the archive at once.",
)
DECISIONS = (
    "We decided on PostgreSQL because the team knows it.",
    "We will use feature flags instead of long branches, since merging took days.",
    "The queue will be RabbitMQ, because Kafka is too much for us to run.",
    "We agreed to generate invoice numbers in the database.",
    "Dates are stored in UTC, and shown in the zone of the shop.",
    "The search box gets its own service, so that it can be scaled alone.",
    "We chose to retry webhooks with exponential backoff.",
    "Images go through a content delivery network from now on.",
)
REVISED = (
    (
        "The upload limit is 10 MB.",
        "The upload limit is now 25 MB.",
        "The upload limit is now 40 MB.",
    ),
    ("The session timeout is 15 minutes.", "The session timeout is now 30 minutes."),
    ("The pool has 20 connections.", "The pool now has 35 connections."),
    ("The launch is on 12 May.", "The launch is now on 19 June."),
    ("The cache keeps entries for 60 seconds.", "The cache now keeps entries for 300 seconds."),
    ("The budget is 80,000 euros.", "The budget is now 95,000 euros."),
    ("Three servers run the shop.", "Five servers run the shop now."),
)

HOLDING = (*CONSTRAINTS, *DECISIONS, *(versions[-1] for versions in REVISED))
"""What must stand in the context, word for word, at the end."""

GONE = tuple(version for versions in REVISED for version in versions[:-1])
"""What must have left it."""


def plan(turns: int) -> dict[int, str]:
    """Return which statement is made in which turn, all of them before the last fifth.

    Versions of one number come in their order, far apart.
    """
    rounds = [list(CONSTRAINTS[:8]), list(DECISIONS), list(CONSTRAINTS[8:])]
    for at in range(3):
        rounds[at] += [versions[at] for versions in REVISED if at < len(versions)]
    said = [statement for one in rounds for statement in one]
    step = turns * 4 // 5 // len(said)
    return {3 + at * step: statement for at, statement in enumerate(said)}
