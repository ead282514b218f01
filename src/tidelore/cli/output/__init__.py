"""What commands print: tables, texts, the robot envelope, progress and logs.

These modules render what they are given. They read no database and no network.
"""
