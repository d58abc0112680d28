"""The rules of working memory, as pure functions over frozen values, and the archives."""
