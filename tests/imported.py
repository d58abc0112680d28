"""What takes long to import, and the vocabulary of tokens, for processes that are forked."""

from importlib import import_module

from ebbtide.memory.tokens import count

for name in (
    *("langchain.agents", "langchain_openai.chat_models", "ebbtide.cli.chat"),
    *("langgraph.checkpoint.postgres.aio", "langgraph.checkpoint.sqlite.aio", "redis"),
    *("sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite.pysqlite"),
):
    import_module(name)
count("ready")
