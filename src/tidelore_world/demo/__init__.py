"""The commands `lore demo` and `lore simulate`: Tidelore run against the simulated world."""
