"""Commands that change something on the servers: `lore reply`, `lore resolve`, `lore unresolve`."""
