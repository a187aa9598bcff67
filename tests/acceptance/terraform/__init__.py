"""The calls of Terraform's AWS provider (v5 and v6) for queues, topics and subscriptions, made with boto3.

After hashicorp/terraform-provider-aws, whose source files the modules name. `internal/attrmap/attrmap.go` says which
attributes are sent, and what of an answer becomes state.
"""
