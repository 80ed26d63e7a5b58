"""Ask an MLflow server what it has of an experiment, by its own client and in its environment; print it as JSON.

read_mlflow.py URL EXPERIMENT
"""

from __future__ import annotations

import json
import sys
from typing import Any

import mlflow

KEY = "gateway.session_key"


def main() -> None:
    url, experiment = sys.argv[1:]
    mlflow.set_tracking_uri(url)
    sessions: list[Any] = mlflow.search_sessions(locations=[experiment], include_spans=False)
    spans = [
        {"trace": trace.info.trace_id, "name": span.name, "root": span.parent_id is None, "attributes": span.attributes}
        for trace in searched(experiment, include_spans=True)
        for span in trace.data.spans
    ]
    keys = {span["attributes"][KEY] for span in spans}
    answer = {
        "sessions": {session.id: turns(session) for session in sessions},
        "searched": {
            session.id: turns(searched(experiment, f"metadata.`mlflow.trace.session` = '{session.id}'"))
            for session in sessions
        },
        # It compares the JSON of a value, with its quotes.
        "keys": {
            key: [turn["trace"] for turn in turns(searched(experiment, f"span.attributes.{KEY} LIKE '%{key}%'"))]
            for key in keys
        },
        "spans": spans,
    }
    print(json.dumps(answer))


def searched(experiment: str, filter_string: str | None = None, include_spans: bool = False) -> Any:
    return mlflow.search_traces(
        locations=[experiment],
        filter_string=filter_string,
        max_results=100,
        return_type="list",
        include_spans=include_spans,
    )


def turns(traces: Any) -> list[dict[str, str]]:
    return [{"trace": trace} for trace in sorted(found.info.trace_id for found in traces)]


if __name__ == "__main__":
    main()
