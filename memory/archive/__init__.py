"""The archive: where manifest and raw logs are kept."""
