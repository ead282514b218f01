"""What every room may import: model, errors, clock, settings, references and text. Imports no other room."""
