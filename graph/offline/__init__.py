"""What the offline model is made of: prompts, requests it understands, what it writes of logs."""
