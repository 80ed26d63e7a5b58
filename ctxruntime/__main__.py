"""`python -m ctxruntime` is `ctxruntime`."""

from __future__ import annotations

from ctxruntime.cli import main

if __name__ == "__main__":
    main()
