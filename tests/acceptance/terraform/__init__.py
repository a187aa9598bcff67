"""Terraform with AWS's provider: itself where it is installed, and the calls that it made, recorded."""
