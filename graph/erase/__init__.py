"""Erasing a turn, a session or a user: archive, state and checkpoints."""
