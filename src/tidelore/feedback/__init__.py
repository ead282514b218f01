"""Feedback: turn comments on tracked pull requests into events, commands and answers, each exactly once.

Reads pull requests and comments of GitHub repositories, stores the effects of each comment version, applies operator
commands, passes events to handlers and posts answers.
"""
