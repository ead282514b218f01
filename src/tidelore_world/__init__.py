"""A small world of forges that behaves like the real ones: GitLab, GitHub and Bluesky on one HTTP origin.

Contains the world, its clock, its faults and its server. It imports nothing of Tidelore, which it is used to test; only
`demo/`, which runs the two together, does. Same seed and same commands, same world, byte for byte.
"""
