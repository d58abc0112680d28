"""The inspector: a page that shows what the model was sent, what left the context, and why."""
