"""What a handler gets: the keys that its signature accepts, and nothing else changes."""

from __future__ import annotations

from ctxruntime.handlers.calling import acall, adapt, call, explain
from ctxruntime.handlers.decorators import inject
from ctxruntime.handlers.plan import INJECTED, Plan

__all__ = ["INJECTED", "Plan", "acall", "adapt", "call", "explain", "inject"]
