"""What the nodes share: the state, its values, messages, and what an earlier run left behind."""
