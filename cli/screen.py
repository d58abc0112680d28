"""What a turn shows at the terminal while it happens: the answer as it comes, the banners."""

from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from rich.console import Console, RenderableType
from rich.text import Text

from .budget import spent
from .printable import printable, unfinished


def banner(text: str) -> Text:
    """Return a banner for the terminal, its first line set off from what stands below."""
    head, _, rest = printable(text).partition("\n")
    shown = Text(head, style="yellow")
    return shown.append(f"\n{rest}", style="dim") if rest else shown


class Screen:
    """Shows turns on a console. It keeps what was said in the running turn.

    An emoji at the end of a piece is held back: the next piece may add to it.
    """

    def __init__(self, console: Console, budget: int) -> None:
        """Print to `console`; `budget` is the size the context aims at, in tokens."""
        self._console = console
        self.budget = budget
        self._message: str | None = None
        self._whole = self._held = ""
        self._report: dict[str, Any] = {}

    def show(self, mode: str, event: Any) -> None:
        """Show one event of a stream of `messages`, `custom` and `values`."""
        if mode == "messages":
            self._said(*event)
        elif mode == "custom" and "banner" in event:
            self._line(banner(str(event["banner"])))
        elif mode == "values":
            self._report = event.get("memory", {}).get("context_report", {})

    def end(self) -> None:
        """End a turn: say how large its context was."""
        self._break()
        if self._report:
            self._console.print(spent(self._report, self.budget), soft_wrap=True)
        self._report = {}

    def notice(self, text: str, style: str = "dim") -> None:
        """Print one line that is not part of the conversation."""
        self._line(Text(printable(text), style=style))

    def page(self, *parts: RenderableType) -> None:
        """Print what a command shows, each part on lines of its own; a `str` as it is, tabs too."""
        self._break()
        for part in parts:
            if isinstance(part, str):
                self._console.file.write(f"{printable(part)}\n")
            else:
                self._console.print(part, soft_wrap=isinstance(part, Text))

    def _said(self, message: Any, origin: dict[str, Any]) -> None:
        if origin.get("langgraph_node") != "call_model" or not isinstance(message, AIMessage):
            return
        text = message.text
        if not text or (not isinstance(message, AIMessageChunk) and text == self._whole):
            return
        if message.id != self._message:
            self._break()
            self._message = message.id
        self._whole += text
        begun = self._held + text
        at = unfinished(begun)
        self._held = begun[at:]
        self._console.print(Text(printable(begun[:at])), end="", soft_wrap=True)

    def _line(self, text: Text) -> None:
        self._break()
        self._console.print(text, soft_wrap=True)

    def _break(self) -> None:
        """Begin a new line if an answer stands on this one."""
        if self._whole and not self._whole.endswith("\n"):
            self._console.print(Text(printable(self._held)), soft_wrap=True)
        self._message, self._whole, self._held = None, "", ""
