"""The page on the paper: what it reports, what we found, and which of its claims hold."""
