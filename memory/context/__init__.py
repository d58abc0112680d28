"""What the model is sent: the conversation within a hard budget."""
