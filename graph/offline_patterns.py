"""The sentences that the offline model takes for requests to its memory tools.

The first rule that matches a whole clause counts. The groups become arguments: `name` and `goal`
of a new effort, `id` of an effort, `known` likewise if the prompt shows that effort.
"""

import re

_LEAD = (
    r"(?:(?:ok|okay|so|now|and|then|well|great|good|perfect|thanks|thank you|please|also|next|yes|"
    r"alright|right|hey|first|finally|can you|could you|would you|will you)\b[\s,:–-]*)*"
)
_WISH = (
    r"(?:(?:let's|let us|i want to|i need to|i'd like to|i would like to|we should|we need to|"
    r"i'll|we'll)\s+(?:now\s+)?)"
)
_OVER = r"(?:done|fixed|finished|solved|sorted|settled|resolved|complete|completed|closed)"
_SOON = r"(?:\s+(?:now|then|for now|for today|here))?"
_THIS = r"(?:this|that|it|this effort|the effort)"
_LOG = r"(?:full |whole |complete |entire |raw )?(?:log|logs|details?|history|transcript)"
_ASPECT = r"(?:\s+(?:of|on|about|for|from|behind))"
_TAKE = r"(?:(?:show|give|tell|bring|read|what are)\s+)?(?:me |us |back )?(?:all )?(?:the )?"
_READ = r"(?:read|show)(?: me)?(?: the)?(?: full)?"
_NEW = r"(?:an? )?(?:new )?effort:?(?: (?:for|on|called|named))?"

_STATUS = (
    r"what are we (?:working on|doing)(?: now)?",
    r"what(?:'s| is) (?:open|active)",
    r"(?:what(?:'s| is) )?(?:the |our |effort )?status(?: report)?",
    r"where (?:are|were) we(?: now)?",
    r"(?:list|show)(?: me)?(?: all)?(?: the| our| my)? efforts",
    r"which efforts .+",
)

_RULES: tuple[tuple[str, str], ...] = (
    ("update_goal", r"(?:the|our|my) (?:goal is now|new goal is):?\s+(?P<goal>.+)"),
    ("update_goal", r"(?:change|update|set) (?:the|our|my) goal to:?\s+(?P<goal>.+)"),
    ("update_goal", r"new goal:\s*(?P<goal>.+)"),
    ("close_effort", rf"(?:that|this|it)(?:'s| is)(?: all)? {_OVER}{_SOON}"),
    ("close_effort", rf"(?:we|i)(?:'re|'m| are| am) (?:all )?(?:done|finished|through){_SOON}"),
    (
        "close_effort",
        r"(?:(?:we|i)(?:'re|'m| are| am) )?(?:all )?(?:done|finished|through) with (?P<id>.+)",
    ),
    ("close_effort", rf"{_WISH}?wrap (?:(?P<id>.+) )?up"),
    ("close_effort", rf"{_WISH}?(?:wrap up|close|conclude)(?: (?P<id>.+))?"),
    ("close_effort", rf"mark (?P<id>.+?) (?:as )?{_OVER}"),
    ("close_effort", rf"(?P<known>.+?) is {_OVER}{_SOON}"),
    ("effort_status", f"(?:{'|'.join(_STATUS)})"),
    (
        "open_effort",
        rf"{_WISH}?(?:open|start|begin) {_NEW} (?P<name>.+)",
    ),
    ("open_effort", r"new effort:?\s+(?P<name>.+)"),
    (
        "open_effort",
        rf"{_WISH}?(?:work|start (?:work|working)|begin (?:work|working)) on (?P<name>.+)",
    ),
    ("open_effort", rf"{_WISH}?(?:start|begin) (?:on|with) (?P<name>.+)"),
    ("open_effort", rf"{_WISH}(?:start|begin|tackle) (?P<name>.+)"),
    ("switch_effort", rf"{_WISH}?pause(?: {_THIS})?{_SOON}"),
    ("switch_effort", rf"{_WISH}?put {_THIS} (?:aside|on hold){_SOON}"),
    (
        "update_goal",
        r"(?:(?P<drop>drop|lift)|add|new)(?: an?| the)? constraint:?\s+(?P<rule>.+)",
    ),
    ("reopen_effort", rf"{_WISH}?(?:re-?open|take up) (?P<id>.+)"),
    (
        "switch_effort",
        rf"{_WISH}?(?:(?:switch|go|get|jump)(?: over| back)?|back|return) to (?P<id>.+)",
    ),
    (
        "switch_effort",
        rf"{_WISH}?(?:continue|resume|go on|carry on)(?: with| on| working on)? (?P<known>.+)",
    ),
    (
        "read_log",
        rf"{_READ}(?: log)?(?: of| from)? turns? (?P<turns>\d+(?:-\d+)?)",
    ),
    ("expand_effort", rf"{_WISH}?expand (?P<id>.+)"),
    (
        "expand_effort",
        rf"{_TAKE}{_LOG}{_ASPECT} (?P<id>.+)",
    ),
    ("collapse_effort", rf"{_WISH}?collapse (?P<id>.+)"),
    (
        "search_efforts",
        r"(?:search|look)(?: the| your| our)?(?: memory| efforts| archive)? for (?P<query>.+)",
    ),
)
RULES = tuple((tool, re.compile(_LEAD + rule, re.IGNORECASE)) for tool, rule in _RULES)
"""The tool that a matching clause asks for, and the pattern of the clause."""

TOOLS = frozenset(tool for tool, _ in RULES)
"""The memory tools; results of others are no JSON of ours."""
