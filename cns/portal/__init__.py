"""The portal: what the owner of an endpoint, who has no account, may see of its subscription and do with it."""
