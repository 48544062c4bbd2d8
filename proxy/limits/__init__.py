"""Limits of virtual keys, their owners and client addresses: request rates, tokens per minute, dollar budgets."""
