"""Attention: which memories of a user's sessions are worth surfacing now."""
