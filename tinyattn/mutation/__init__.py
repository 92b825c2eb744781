"""Mutation testing of rules: small changes to the code of a function, and running the function with such a change."""
