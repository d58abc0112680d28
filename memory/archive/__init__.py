"""The archive: where turns and efforts are kept."""
