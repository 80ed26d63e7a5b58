"""A model's server whose answer uses the tools that a word in the last message asks for."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

from scripted_model import RefusedError, ScriptedModel, text

_numbers = count()
MARKS = re.compile(r"\[(?:one|three|mixed|code|delegate|danger|write|shell|refused)\]|work kanban task")


class ActingModel(ScriptedModel):
    """Answers `[one]`, `[three]`, `[mixed]`, `[code]`, `[delegate]`, `[danger]`, `[write]`, `[shell]`, and what a
    kanban worker is told; refuses `[refused]`, and answers all else with words.
    """

    def __init__(self, folder: Path) -> None:
        self.files = [folder / f"file{number}.txt" for number in range(3)]
        for file in self.files:
            file.write_text(f"{file.name}\n")
        self.asked: list[dict[str, Any]] = []
        super().__init__(self.files[0])

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the message that a request is answered with."""
        self.asked.append(asked)
        messages = asked["messages"]
        said = [text(message) for message in messages if message["role"] == "user"]
        marks = MARKS.findall(said[-1] if said else "")
        if "[refused]" in marks:
            raise RefusedError("not today")
        if not marks or not asked.get("tools") or messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": "Done."}
        calls = [self._call(name, arguments) for name, arguments in self._plan(marks[-1].strip("[]"))]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def _plan(self, mark: str) -> list[tuple[str, dict[str, Any]]]:
        reads = [("read_file", {"path": str(file)}) for file in self.files]
        todo = {"todos": [{"id": "1", "content": "x", "status": "pending"}]}
        code = f"from hermes_tools import read_file\nprint(read_file({str(self.files[0])!r}))"
        plans: dict[str, list[tuple[str, dict[str, Any]]]] = {
            "one": reads[:1],
            "three": reads,
            "mixed": [("todo", todo), reads[0]],
            "code": [("execute_code", {"code": code})],
            "danger": [("terminal", {"command": "rm -rf nothing-here"})],
            "write": [("write_file", {"path": str(self.files[0].with_name("made.py")), "content": "made = True\n"})],
            "shell": [("terminal", {"command": "echo said by the shell"})],
            "work kanban task": [("kanban_complete", {"summary": "done"})],
            "delegate": [("delegate_task", {"goal": "[one] read a file", "toolsets": ["file"]})],
        }
        return plans[mark]

    def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"id": f"call-{next(_numbers)}", "type": "function", "function": function}
