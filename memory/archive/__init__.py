"""The archive: where manifest and logs are kept."""
