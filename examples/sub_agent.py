"""An agent's turn: its id comes late, it starts a sub-agent, and both go on under new ids.

Prints:
    at the door         session -, before it -, chat discord:dm:7
    agent made          session main-1, before it -, chat discord:dm:7
    sub-agent           session child-1, before it -, chat discord:dm:7
    sub-agent goes on   session child-2, before it child-1, chat discord:dm:7
    agent again         session main-1, before it -, chat discord:dm:7
    agent goes on       session main-2, before it main-1, chat discord:dm:7
    what the door sees  session main-2, before it main-1, chat discord:dm:7
    behind the door     session -, before it -, chat -
"""

from threading import Thread

import ctxruntime as ctx


def show(where: str) -> None:
    """Print what is in effect here."""
    session, before, chat = (key.get("-") for key in (ctx.SESSION_ID, ctx.PREVIOUS_SESSION_ID, ctx.GATEWAY_SESSION_KEY))
    print(f"{where:<19} session {session}, before it {before}, chat {chat}")


def run_agent() -> None:
    """Do the turn's work, with one sub-agent in it."""
    ctx.amend(session_id="main-1")  # for all who serve the turn, also outside this thread
    show("agent made")
    run_sub_agent()
    show("agent again")
    ctx.amend(session_id="main-2")  # a rotation: the history was compressed
    show("agent goes on")


@ctx.bind(session_id="child-1")
def run_sub_agent() -> None:
    """Work in a scope of its own: what changes here is not the parent's."""
    show("sub-agent")
    ctx.amend(session_id="child-2")
    show("sub-agent goes on")


def main() -> None:
    """Let one event in."""
    with ctx.session(gateway_session_key="discord:dm:7"):
        show("at the door")
        agent = Thread(target=ctx.carry(run_agent))
        agent.start()
        agent.join()
        show("what the door sees")
    show("behind the door")


if __name__ == "__main__":
    main()
