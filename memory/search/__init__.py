"""Search: the terms and passages of texts, their embeddings, and how both are ranked."""
