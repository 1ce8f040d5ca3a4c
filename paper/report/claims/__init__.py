"""The paper's statements one by one: what was measured, and the verdict that a rule gives."""
