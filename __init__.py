"""Ebbtide: a LangGraph agent whose working memory manages itself."""

__all__: list[str] = []
