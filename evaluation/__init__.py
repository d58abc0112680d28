"""How well a strategy keeps a conversation's goal while it shortens the context."""
