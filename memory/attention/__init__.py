"""Attention: which concluded efforts of a user's sessions are worth surfacing now."""
