"""The embedded archive: JSON lines on disk, with an index that can be deleted."""
