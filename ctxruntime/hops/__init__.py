"""How a scope gets across: from one flow of execution to another."""
