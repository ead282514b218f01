"""Leases, runs, service records, feedback events, planned answers and tracked pull requests.

Rows that coordinate processes and record what was done, as opposed to the mirrored conversations.
"""
