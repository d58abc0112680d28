"""The commands, and the registry that every surface takes them from."""
