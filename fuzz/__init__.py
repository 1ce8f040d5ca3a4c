"""A fuzzing campaign: damaged and hostile files, messages and inputs, by ``make fuzz``."""
