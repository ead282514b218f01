"""Modules that every package may import: model, errors, clock, settings, references, text. Imports no other package."""
