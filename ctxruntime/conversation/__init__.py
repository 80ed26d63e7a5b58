"""Which ids are one conversation, and what is kept for it.

    from ctxruntime import conversation

    bridge = conversation.Bridge("sqlite:conversations.db")
    with conversation.use(bridge):      # turns consult and teach it from now on
        ...

A *conversation* is what stays the same while session ids rotate; a *bridge* knows which gateway key and session ids
are one. `ConversationState` keeps a small mapping for each, in the bridge's store; `ConversationLocal` an object for
each, in this process.
"""
