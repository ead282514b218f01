"""Feedback: comments on tracked pull requests become events, commands and answers, each exactly once.

Reads pull requests and comments of GitHub repositories, stores what each comment version leads to, applies operator
commands, hands events to handlers and posts answers.
"""
