"""Commands that hand the copy to other programs."""
