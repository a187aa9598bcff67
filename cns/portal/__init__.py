"""The portal: shows the owner of an endpoint, without an account, its subscription, and offers acts on it."""
