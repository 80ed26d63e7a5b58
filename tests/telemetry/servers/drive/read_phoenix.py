"""Ask a Phoenix server what it has of a project, by its own client and in its environment; print it as JSON.

read_phoenix.py URL PROJECT
"""

from __future__ import annotations

import json
import sys
from typing import Any

from phoenix.client import Client

KEY = "gateway.session_key"
SECONDS = 30


def main() -> None:
    url, project = sys.argv[1:]
    client = Client(base_url=url)
    sessions = client.sessions.list(project_name=project, limit=100, timeout=SECONDS)
    spans = spans_of(client, project)
    keys = {span["attributes"][KEY] for span in spans}
    answer = {
        "sessions": {session["session_id"]: turns_of(client, session["session_id"]) for session in sessions},
        "keys": {key: sorted({span["trace"] for span in spans_of(client, project, {KEY: key})}) for key in keys},
        "spans": spans,
        "page": f"{url}/projects/{client.projects.get(project_name=project)['id']}/sessions",
    }
    print(json.dumps(answer))


def spans_of(client: Client, project: str, attributes: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [
        {
            "trace": span["context"]["trace_id"],
            "name": span["name"],
            "root": span.get("parent_id") is None,
            "attributes": span.get("attributes", {}),
        }
        for span in client.spans.get_spans(
            project_identifier=project, attributes=attributes, limit=1000, timeout=SECONDS
        )
    ]


def turns_of(client: Client, session_id: str) -> list[dict[str, Any]]:
    return [
        {
            "trace": turn["trace_id"],
            "input": turn.get("input", {}).get("value"),
            "output": turn.get("output", {}).get("value"),
        }
        for turn in client.sessions.get_session_turns(session_id=session_id, timeout=SECONDS)
    ]


if __name__ == "__main__":
    main()
