"""Print what of the installed Hermes is patched."""

from __future__ import annotations

import os

from ctxruntime_integrations.hermes.report import main

if __name__ == "__main__":
    code: int = main()
    os._exit(code)  # threads that importing the host has started would hold the process
