"""Writes what a sync fetched: items, their children, posts, payloads, cursors and quarantine.

Every page is one transaction under the lease: rows, links, quarantine, dirty marks and the cursor commit together. No
other package writes cursors.
"""
