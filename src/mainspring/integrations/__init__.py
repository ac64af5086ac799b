"""Mainspring inside other libraries, each in a file or folder of its own with an extra of its name.

Users import what they need, such as `mainspring.integrations.pydantic_ai`; nothing else imports them, except the
command `mainspring mcp`. Each stands on the public face alone, or on the HTTP API.
"""
