"""Commands that read conversations from the copy: `lore threads`, `lore context`, `lore changes` and the like."""
