"""The REST API under `/api/v1`, in the manner of CassieQ (seed 001): JSON over HTTP, problem details (RFC 9457).

A request runs the operations of SQS and SNS, so policies and limits are those of the AWS protocols.
"""
