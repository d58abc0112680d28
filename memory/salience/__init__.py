"""Compression: the older part of a long open effort as quotes and a background."""
