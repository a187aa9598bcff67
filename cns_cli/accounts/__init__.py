"""Commands about accounts, users, keys and operators."""
