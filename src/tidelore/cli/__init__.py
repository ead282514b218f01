"""The command line `lore`: modules by subject, whose commands parse options and return an `Output`.

`main` finds a command by name and imports its module only when it is called. Heavy imports of a command are
inside its functions, so that an offline read such as `lore list` loads no HTTP client, event loop or terminal
library.
"""
