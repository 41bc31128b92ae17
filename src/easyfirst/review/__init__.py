"""A page on this machine for deciding, row by row or pattern by pattern, what is really wrong."""
