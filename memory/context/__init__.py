"""What the model is sent: one timeline within a hard budget."""
