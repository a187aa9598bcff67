"""Every error code of the services: HTTP status, code in AWS Query, shape name in AWS JSON.

A service raises `RequestError(code)`; the code is the key here. SQS's codes are the shape names of its model
(or, where AWS answers with a shape outside the model, the Query code); SNS's and STS's are the codes in AWS Query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cns_common.aws.protocol.names import ServiceName


class Fault(NamedTuple):
    """An error code as clients see it: `wire` in AWS Query, `shape` in AWS JSON. A status from 500 on is this service's
    fault, one below the caller's."""

    status: int
    wire: str
    shape: str


_SQS = "com.amazonaws.sqs#"
_CORAL = "com.amazon.coral.service#"  # AWS's framework in front of SQS: these shapes are not in SQS's model
_LEGACY = "AWS.SimpleQueueService."

INTERNAL_ERROR = Fault(500, "InternalError", _CORAL + "InternalFailure")
UNAVAILABLE = Fault(503, "ServiceUnavailable", _CORAL + "ServiceUnavailableException")

# errors from before a service is reached: signatures, unreadable requests, failures of this service
_FRONT_DOOR: Mapping[str, Fault] = {
    "AccessDenied": Fault(403, "AccessDenied", _CORAL + "AccessDeniedException"),
    "ExpiredToken": Fault(403, "ExpiredToken", _CORAL + "ExpiredTokenException"),
    "IncompleteSignature": Fault(400, "IncompleteSignature", _CORAL + "IncompleteSignatureException"),
    "InternalError": INTERNAL_ERROR,
    "InvalidAction": Fault(400, "InvalidAction", _CORAL + "UnknownOperationException"),
    "InvalidHttpRequest": Fault(400, "InvalidHttpRequest", _CORAL + "InvalidHttpRequestException"),
    "InvalidClientTokenId": Fault(403, "InvalidClientTokenId", _CORAL + "UnrecognizedClientException"),
    "InvalidSecurity": Fault(403, "InvalidSecurity", _SQS + "InvalidSecurity"),
    "MalformedInput": Fault(400, "MalformedInput", _CORAL + "SerializationException"),
    "MethodNotAllowed": Fault(405, "MethodNotAllowed", _CORAL + "MethodNotAllowedException"),
    "MissingAuthenticationToken": Fault(
        403, "MissingAuthenticationToken", _CORAL + "MissingAuthenticationTokenException"
    ),
    "RequestEntityTooLarge": Fault(413, "RequestEntityTooLarge", _CORAL + "RequestEntityTooLargeException"),
    "RequestHeaderFieldsTooLarge": Fault(
        431, "RequestHeaderFieldsTooLarge", _CORAL + "RequestHeaderFieldsTooLargeException"
    ),
    "RequestTimeout": Fault(408, "RequestTimeout", _CORAL + "RequestTimeoutException"),
    "SerializationException": Fault(400, "MalformedInput", _CORAL + "SerializationException"),
    "ServiceUnavailable": UNAVAILABLE,
    "SignatureDoesNotMatch": Fault(403, "SignatureDoesNotMatch", _CORAL + "InvalidSignatureException"),
    "UnknownOperationException": Fault(404, "UnknownOperationException", _CORAL + "UnknownOperationException"),
}


def _sqs(status: int, prefix: str, codes: str) -> dict[str, Fault]:
    return {code: Fault(status, prefix + code, _SQS + code) for code in codes.split()}


def _on_wire(status: int, codes: str) -> dict[str, Fault]:
    """SNS and STS speak AWS Query only, which has no shape names."""
    return {code: Fault(status, code, code) for code in codes.split()}


_SQS_FAULTS: Mapping[str, Fault] = {
    **_FRONT_DOOR,
    **_sqs(
        400,
        _LEGACY,
        "QueueDeletedRecently MessageNotInflight EmptyBatchRequest TooManyEntriesInBatchRequest "
        "BatchEntryIdsNotDistinct InvalidBatchEntryId BatchRequestTooLong UnsupportedOperation",
    ),
    **_sqs(403, _LEGACY, "PurgeQueueInProgress"),
    **_sqs(400, "", "InvalidAttributeName InvalidAttributeValue InvalidMessageContents InvalidIdFormat"),
    **_sqs(403, "", "OverLimit RequestThrottled"),
    **_sqs(404, "", "ReceiptHandleIsInvalid InvalidAddress ResourceNotFoundException"),
    "QueueDoesNotExist": Fault(400, _LEGACY + "NonExistentQueue", _SQS + "QueueDoesNotExist"),
    "QueueNameExists": Fault(400, "QueueAlreadyExists", _SQS + "QueueNameExists"),
    "KmsAccessDenied": Fault(400, "KMS.AccessDeniedException", _SQS + "KmsAccessDenied"),
    "KmsDisabled": Fault(400, "KMS.DisabledException", _SQS + "KmsDisabled"),
    "KmsInvalidKeyUsage": Fault(400, "KMS.InvalidKeyUsageException", _SQS + "KmsInvalidKeyUsage"),
    "KmsInvalidState": Fault(400, "KMS.InvalidStateException", _SQS + "KmsInvalidState"),
    "KmsNotFound": Fault(400, "KMS.NotFoundException", _SQS + "KmsNotFound"),
    "KmsOptInRequired": Fault(403, "KMS.OptInRequired", _SQS + "KmsOptInRequired"),
    "KmsThrottled": Fault(400, "KMS.ThrottlingException", _SQS + "KmsThrottled"),
    "InvalidParameterValue": Fault(400, "InvalidParameterValue", _CORAL + "InvalidParameterValueException"),
    "MissingParameter": Fault(400, "MissingParameter", _CORAL + "MissingRequiredParameterException"),
    # recorded from AWS only as the code of a batch entry with an empty body
    "EmptyValue": Fault(400, "EmptyValue", _CORAL + "InvalidParameterValueException"),
    # of LocalStack's /_aws/sqs/messages, for an action other than ReceiveMessage
    "InvalidRequest": Fault(400, "InvalidRequest", _CORAL + "InvalidRequestException"),
    # SQS answers an unsigned call so
    "MissingAuthenticationToken": _FRONT_DOOR["AccessDenied"],
}

_SNS_FAULTS: Mapping[str, Fault] = {
    **_FRONT_DOOR,
    **_on_wire(
        400,
        "InvalidParameter ParameterValueInvalid ValidationError ValidationException VerificationException InvalidState "
        "ConcurrentAccess StaleTag TagPolicy TagLimitExceeded BatchEntryIdsNotDistinct BatchRequestTooLong "
        "EmptyBatchRequest InvalidBatchEntryId TooManyEntriesInBatchRequest EndpointDisabled "
        "PlatformApplicationDisabled OptedOut UserError KMSAccessDenied KMSDisabled KMSInvalidState KMSNotFound "
        "KMSThrottling Throttling",
    ),
    **_on_wire(
        403,
        "AuthorizationError FilterPolicyLimitExceeded SubscriptionLimitExceeded TopicLimitExceeded ReplayLimitExceeded "
        "KMSOptInRequired",
    ),
    **_on_wire(404, "NotFound ResourceNotFound"),
    **_on_wire(429, "Throttled"),
    # of a name that no store can have as a key
    "InvalidParameterValue": Fault(400, "InvalidParameter", "InvalidParameter"),
    # SNS's own code for a refusal by policy
    "AccessDenied": Fault(403, "AuthorizationError", "AuthorizationError"),
}

_STS_FAULTS: Mapping[str, Fault] = {
    **_FRONT_DOOR,
    **_on_wire(
        400,
        "ValidationError ExpiredTokenException ExpiredTradeInTokenException MalformedPolicyDocument "
        "PackedPolicyTooLarge IDPCommunicationError InvalidAuthorizationMessageException InvalidIdentityToken "
        "JWTPayloadSizeExceededException",
    ),
    **_on_wire(
        403,
        "RegionDisabledException IDPRejectedClaim OutboundWebIdentityFederationDisabledException "
        "SessionDurationEscalationException",
    ),
}

_FAULTS: Mapping[ServiceName, Mapping[str, Fault]] = {"sqs": _SQS_FAULTS, "sns": _SNS_FAULTS, "sts": _STS_FAULTS}


def find_fault(service: ServiceName, code: str) -> Fault | None:
    return _FAULTS[service].get(code)


def known_codes(service: ServiceName) -> Iterable[str]:
    """Every code that a `RequestError` of this service may have."""
    return _FAULTS[service].keys()


def wire_code(service: ServiceName, code: str) -> str:
    """The code in AWS Query, and in the failed entries of a batch."""
    return (find_fault(service, code) or INTERNAL_ERROR).wire
