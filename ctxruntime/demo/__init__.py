"""The host that `ctxruntime demo` runs: three frontends at once, and plugin handlers of every signature kind.

Read it in this order to see what a host does to adopt ctxruntime:

    wiring.py       the two names that a host takes from ctxruntime, and what stands there today
    host.py         the registry of handlers, and the one place where they are called
    frontends/      three entry points: a CLI loop, a chat gateway on asyncio, an RPC server on threads
    plugins.py      what plugin authors write, in every form that they write it in

Around the host: `script.py` has the events and, from them alone, what is right; `run.py` plays the script;
`report.py` compares and prints. `hermes.py` plays the same handlers in a Hermes Agent that is installed.
"""
