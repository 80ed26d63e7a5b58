"""The presets are what the vendors' own packages say."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ctxruntime.telemetry import PRESETS

ALONE = {
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_ENABLED": "false",
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""What keeps the packages from calling anybody."""

SHOW = "import json, {module}; print(json.dumps([getattr({module}{owner}, name) for name in {names!r}]))"


def constants(module: str, *names: str, owner: str = "") -> list[str]:
    """Return the values of names in a package of a vendor, which is imported in a process of its own."""
    program = SHOW.format(module=module, owner=owner and f".{owner}", names=names)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, env=os.environ | ALONE
    )
    assert run.returncode == 0, run.stderr
    values: list[str] = json.loads(run.stdout)
    return values


def shown(preset: str, key: str) -> tuple[str, ...]:
    return PRESETS[preset].names[key]


SEMCONV = "opentelemetry.semconv._incubating.attributes."


@pytest.mark.vendors
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_the_names_of_the_conventions(preset: str) -> None:
    """The session, the one before, the conversation and the user are named as OpenTelemetry names them."""
    session, previous = constants(f"{SEMCONV}session_attributes", "SESSION_ID", "SESSION_PREVIOUS_ID")
    (conversation,) = constants(f"{SEMCONV}gen_ai_attributes", "GEN_AI_CONVERSATION_ID")
    (user,) = constants(f"{SEMCONV}user_attributes", "USER_ID")

    assert shown(preset, "session_id")[:2] == (session, conversation)
    assert shown(preset, "previous_session_id") == (previous,)
    assert shown(preset, "user_id")[0] == user


@pytest.mark.vendors
def test_langfuse() -> None:
    """Its attribute class names the session and the user as this preset does."""
    session, user = constants(
        "langfuse._client.attributes", "TRACE_SESSION_ID", "TRACE_USER_ID", owner="LangfuseOtelSpanAttributes"
    )

    assert session in shown("langfuse", "session_id")
    assert user in shown("langfuse", "user_id")


@pytest.mark.vendors
def test_phoenix() -> None:
    """OpenInference's conventions name the session and the user as this preset does."""
    session, user = constants("openinference.semconv.trace", "SESSION_ID", "USER_ID", owner="SpanAttributes")

    assert session in shown("phoenix", "session_id")
    assert user in shown("phoenix", "user_id")


@pytest.mark.vendors
def test_logfire() -> None:
    """Its own semantic conventions name the conversation as this preset does."""
    (conversation,) = constants("logfire._internal.integrations.llm_providers.semconv", "CONVERSATION_ID")

    assert conversation in shown("logfire", "session_id")


@pytest.mark.vendors
def test_traceloop() -> None:
    """Each id is an association property of Traceloop's conventions, under the key's own name."""
    (prefix,) = constants("opentelemetry.semconv_ai", "TRACELOOP_ASSOCIATION_PROPERTIES", owner="SpanAttributes")

    for key in ("session_id", "user_id", "gateway_session_key"):
        assert shown("traceloop", key)[-1] == f"{prefix}.{key}"


@pytest.mark.vendors
def test_mlflow() -> None:
    """The session and the user have the names of MLflow's trace metadata."""
    session, user = constants("mlflow.tracing.constant", "TRACE_SESSION", "TRACE_USER", owner="TraceMetadataKey")

    assert shown("mlflow", "session_id")[-1] == session
    assert shown("mlflow", "user_id")[-1] == user


@pytest.mark.vendors
def test_langsmith() -> None:
    """Each id is run metadata under the prefix of LangSmith's exporter; its project's id is never written."""
    prefix, project = constants("langsmith._internal.otel._otel_exporter", "LANGSMITH_METADATA", "LANGSMITH_SESSION_ID")
    names = PRESETS["langsmith"].names

    assert names["session_id"][2:] == (f"{prefix}.session_id", f"{prefix}.thread_id")
    assert names["user_id"][1:] == (f"{prefix}.user_id",)
    assert names["gateway_session_key"][1:] == (f"{prefix}.gateway_session_key",)
    assert project not in {name for preset in PRESETS.values() for of_key in preset.names.values() for name in of_key}


@pytest.mark.peers
@pytest.mark.skipif(sys.version_info >= (3, 15), reason="ddtrace has no wheels for it")
def test_datadog() -> None:
    """Its agent observability tags the conversation as this preset does."""
    (conversation,) = constants("ddtrace.llmobs._constants", "GEN_AI_CONVERSATION_ID_TAG_KEY")

    assert conversation in shown("datadog", "session_id")
