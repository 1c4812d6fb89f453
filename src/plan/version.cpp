// Keeps the module buildable while it has no code.
