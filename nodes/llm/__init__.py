"""What asks a model besides the conversation: structured calls, their retries, one driver."""
