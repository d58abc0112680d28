"""What the offline model is made of: requests it understands, answers, summaries."""
