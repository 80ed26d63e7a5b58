"""Block a tool in one chat, and in no other: /block TOOL, /unblock TOOL, /blocked.

A plugin for Hermes Agent. Copy this folder to $HERMES_HOME/plugins/tool-blocking, and enable it and ctxruntime:

    plugins:
      enabled: [ctxruntime, tool-blocking]

What is blocked belongs to the conversation: it stays when the history is compressed, under whatever session id, and
is gone after /new. A sub-agent starts with what is blocked where it was started. In the command line, the chat
gateway and the terminal UI alike; nothing here asks which of them it is.
"""

from ctxruntime import bind
from ctxruntime.conversation import ConversationState, NoConversationError, StoreError

TOOLS = ConversationState("blocked-tools")
UNSURE = set()  # sub-agents of which nobody could tell what is blocked where they were started


def block(raw_args):
    """Block a tool here."""
    tool = raw_args.strip()
    if not tool:
        return "Which tool? /block TOOL"
    TOOLS.set(tool, True)
    return f"{tool} is blocked in this chat."


def unblock(raw_args):
    """Let a tool run here again."""
    tool = raw_args.strip()
    was_blocked = TOOLS.pop(tool, False)
    return f"{tool} {'may run again' if was_blocked else 'was not blocked'} in this chat."


def blocked(raw_args, session_id=None, gateway_session_key=None):
    """Say what is blocked here: Hermes passes what a parameter is named after, where it knows it."""
    return f"Blocked in {gateway_session_key or session_id}: {', '.join(sorted(TOOLS)) or 'nothing'}."


def before_a_tool(tool_name, session_id=None, **_):
    """Say no to a tool that is blocked in the chat that the agent works for."""
    try:
        is_blocked = session_id in UNSURE or tool_name in TOOLS
    except NoConversationError:
        return None  # it works for no chat
    except StoreError:
        is_blocked = True  # nobody can tell, so better not
    return {"action": "block", "message": f"{tool_name} is blocked in this chat."} if is_blocked else None


def before_a_sub_agent(child_session_id=None, **_):
    """Pass on to a sub-agent what is blocked where it is started."""
    try:
        here = dict(TOOLS.items())
        if here and child_session_id:
            with bind(session_id=child_session_id):
                TOOLS.update(lambda there: there.update(here))
    except NoConversationError:
        pass  # it is started in no chat
    except StoreError:
        UNSURE.add(child_session_id)


def register(ctx):
    """Tell Hermes what is here."""
    ctx.register_command("block", block, description="Block a tool in this chat", args_hint="TOOL")
    ctx.register_command("unblock", unblock, description="Let a tool run in this chat again", args_hint="TOOL")
    ctx.register_command("blocked", blocked, description="Say which tools are blocked in this chat")
    ctx.register_hook("pre_tool_call", before_a_tool)
    ctx.register_hook("subagent_start", before_a_sub_agent)
