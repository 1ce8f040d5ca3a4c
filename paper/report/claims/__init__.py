"""The paper's claims: measurements, and the verdict of a rule on each."""
