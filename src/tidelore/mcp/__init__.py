"""The MCP server: the use-cases of `app/` as tools and resources for agents, over stdio or loopback HTTP.

Renders what use-cases return; no logic and no SQL here. Needs the extra `mcp`.
"""
