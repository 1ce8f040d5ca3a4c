"""Tables, figures and HTML pages of results, made from arrays without torch."""
