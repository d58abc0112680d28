"""The names of the memory's tools."""

DECIDING = frozenset(
    {"open_effort", "close_effort", "switch_effort", "reopen_effort", "update_goal"}
)
"""The memory's tools that change efforts."""

MEMORY_TOOLS = DECIDING | {
    *("expand_effort", "collapse_effort", "effort_status", "search_efforts", "read_log")
}
"""The memory's tools, whose results repeat what efforts or other turns say."""
