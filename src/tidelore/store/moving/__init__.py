"""Copies a database into another one, of the same dialect or the other, and compares the two.

Tables and their order come from the schema (`tables`), rows and progress are in `copying`, vectors in `vectors`.
"""
