"""The graph: its edges, its routers, the agent made of it, the Studio factory."""
