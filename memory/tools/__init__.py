"""The ten memory tools: what they take, what they do, and how calls run."""
