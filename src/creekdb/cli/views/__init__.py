"""Tables and lines of text that the commands print."""
