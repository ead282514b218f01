"""The console: everything at a glance, on a terminal. A face; it decides nothing and never asks a network."""
