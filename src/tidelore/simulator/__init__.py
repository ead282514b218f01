"""A small world of forges that behaves like the real ones: GitLab, GitHub and Bluesky on one HTTP origin.

Owns the world, its clock, its faults and its server. Refuses to know the product it is used to test: it
imports nothing of the rest of the package. Same seed and same commands, same world, byte for byte.
"""
