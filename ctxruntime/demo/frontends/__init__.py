"""Three frontends of one host, each with its entry point: where an event is let in, and `session` is entered."""
