"""What ctxruntime costs in a turn of the real Hermes: on and off alternate in one process, beside an off/off control.

    python tests/benchmarks/hermes_turn.py [PAIRS]          # where hermes-agent is installed; 200 pairs if not said

Kinds of turn: words, one tool, three tools at once with a probe on every hook. Of each the processor time of a turn,
of the whole process (the model's server is part of it, in both). A turn may cost 1 % or 0.5 ms more than without, the
larger of them, beyond what the control shows between two of the same.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "integrations" / "hermes" / "drive"))

import hook_recorder
from acting import KEY, agent, discover, prepare
from world import World

PAIRS = 200
KINDS = {"words": "", "one tool": "[one] ", "three tools, probed": "[three] "}
ROUNDS = (("off", "on", "control"), ("control", "on", "off"), ("on", "off", "control"), ("control", "off", "on"))
"""Which follows which, so that no place in the order is always the same one's."""


class Host:
    """Agents of one chat, in a home of their own."""

    def __init__(self, directory: Path) -> None:
        self.world = World(directory, "import")
        self.ours = self.world.ours
        self.model = prepare(self.world)
        discover()
        self.agent = agent(self.model, gateway_session_key=KEY, user_id="u", chat_id="chat")
        hook_recorder.ambient = lambda: None
        hook_recorder.turn = lambda: None
        from hermes_cli.plugins import get_plugin_manager

        self.manager: Any = get_plugin_manager()
        self.probes = dict(self.manager._hooks), dict(self.manager._middleware)

    def probe(self, on: bool) -> None:
        """Have the probes called, or not."""
        for registry, found in zip((self.manager._hooks, self.manager._middleware), self.probes, strict=True):
            registry.clear()
            registry.update(found if on else {})

    def turn(self, text: str, *, on: bool) -> float:
        """Run one turn; return its processor time in milliseconds.

        One before it is not counted: what is made at the first need, as the store of conversations is opened.
        """
        (self.ours.install if on else self.ours.uninstall)()
        self.agent.run_conversation(text, conversation_history=[])
        hook_recorder.EVENTS.clear()
        self.model.asked.clear()
        gc.collect()
        start = time.process_time()
        self.agent.run_conversation(text, conversation_history=[])
        return (time.process_time() - start) * 1000


def measure(host: Host, kind: str, pairs: int) -> str:
    """Return what was seen of one kind of turn."""
    host.probe("probed" in kind)
    text = f"{KINDS[kind]}go"
    for on in (False, True) * 3:
        host.turn(text, on=on)
    seen: dict[str, list[float]] = {"off": [], "on": [], "control": []}
    for number in range(pairs):
        for which in ROUNDS[number % len(ROUNDS)]:
            seen[which].append(host.turn(text, on=which == "on"))
    turn = median(seen["off"])
    (more, doubt), (noise, doubt_of_noise) = difference(seen, "on"), difference(seen, "control")
    on, control = f"on {more:+.2f} ±{doubt:.2f} ms", f"control {noise:+.2f} ±{doubt_of_noise:.2f} ms"
    return f"{kind:20} {turn:7.2f} ms   {on}   {control}   allowed {max(turn / 100, 0.5):.2f} ms"


def difference(seen: dict[str, list[float]], which: str) -> tuple[float, float]:
    """Return the median of the differences of pairs, and its standard error, which the middle half of them tells."""
    pairs = [one - other for one, other in zip(seen[which], seen["off"], strict=True)]
    lower, middle, upper = quantiles(pairs, n=4)
    return middle, 1.253 * (upper - lower) / 1.349 / len(pairs) ** 0.5


def main(pairs: int) -> None:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory:
        host = Host(Path(directory))
        for kind in KINDS:
            print(measure(host, kind, pairs), flush=True)
        os._exit(0)  # the host's daemon threads would hold the process


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
