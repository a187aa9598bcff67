"""What mails say, in AWS's words: notifications, and the two confirmations."""

from __future__ import annotations

from urllib.parse import quote

from cns.envelope import Confirmation, MessageType, subscribe_url, unsubscribe_url

SENDER = "AWS Notifications"
"""Of notifications of topics without a DisplayName, and of all confirmations."""
NOTIFICATION_SUBJECT = "AWS Notification Message"
CONFIRMATION_SUBJECTS = {
    MessageType.SUBSCRIPTION_CONFIRMATION: "AWS Notification - Subscription Confirmation",
    MessageType.UNSUBSCRIBE_CONFIRMATION: "AWS Notification - Unsubscribe Confirmation",
}

_STOP = (
    "If you wish to stop receiving notifications from this topic, please click or visit the link below to unsubscribe:"
)
_NO_REPLY = (
    "Please do not reply directly to this email. If you have any questions or comments regarding this email, please "
    "contact us at https://aws.amazon.com/support"
)
_CONFIRM = (
    "You have chosen to subscribe to the topic: \n{topic}\n\n"
    "To confirm this subscription, click or visit the link below (If this was in error no action is necessary): \n"
    "{link}\n"
)
_RESTORE = (
    "Your subscription to the topic below has been deactivated: \n{topic}\n\n"
    "If this was in error or you wish to resubscribe, click or visit the link below to resubscribe to the topic: \n"
    "{link}\n"
)


def notification_mail(text: str, subscription_arn: str, address: str, base_url: str) -> str:
    """A notification's text, or its JSON, and how to get no more of them."""
    link = f"{unsubscribe_url(base_url, subscription_arn)}&Endpoint={quote(address)}"
    return f"{text}\n\n--\n{_STOP}\n{link}\n\n{_NO_REPLY}\n"


def confirmation_mail(confirmation: Confirmation, address: str, base_url: str) -> str:
    subscribing = confirmation.type is MessageType.SUBSCRIPTION_CONFIRMATION
    link = f"{subscribe_url(base_url, confirmation.topic_arn, confirmation.token)}&Endpoint={quote(address)}"
    return (_CONFIRM if subscribing else _RESTORE).format(topic=confirmation.topic_arn, link=link)
