"""Mobile push and SMS, after `internal/service/sns/platform_application.go` and `sms_preferences.go`."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.acceptance.terraform.attributes import PLATFORM_APPLICATION, SMS_PREFERENCES
from tests.acceptance.terraform.resource import Config, Resource, found
from tests.acceptance.terraform.schema import Kind, Schema, at_creation, at_update


@dataclass(frozen=True)
class PlatformApplication(Resource):
    """`aws_sns_platform_application`: a change of one secret sends all of them."""

    name: str = ""
    platform: str = "APNS"
    schema: Schema = field(default_factory=lambda: PLATFORM_APPLICATION)

    def create(self, wanted: Config) -> str:
        created = self.client.create_platform_application(
            Name=self.name, Platform=self.platform, Attributes=at_creation(self.schema, wanted.values)
        )
        arn = str(created["PlatformApplicationArn"])
        assert arn.split(":", 5)[5] == f"app/{self.platform}/{self.name}"  # Terraform reads both from the ARN
        return arn

    def read(self, key: str) -> Config | None:
        call = self.client.get_platform_application_attributes
        answer = found(call, "NotFound", PlatformApplicationArn=key)
        return None if answer is None else Config(values=answer["Attributes"])

    def update(self, key: str, before: Config, after: Config) -> None:
        secrets = {name: text for name, text in after.values.items() if self.schema[name].kind is Kind.SECRET}
        attributes = at_update(self.schema, before.values, after.values)
        if secrets.items() - before.values.items():
            attributes |= secrets
        self.client.set_platform_application_attributes(PlatformApplicationArn=key, Attributes=attributes)

    def delete(self, key: str) -> None:
        self.client.delete_platform_application(PlatformApplicationArn=key)


@dataclass(frozen=True)
class SmsPreferences(Resource):
    """`aws_sns_sms_preferences`: one of an account; deleting it empties all."""

    schema: Schema = field(default_factory=lambda: SMS_PREFERENCES)

    def create(self, wanted: Config) -> str:
        self.client.set_sms_attributes(attributes=at_creation(self.schema, wanted.values))
        return "aws_sns_sms_id"

    def read(self, key: str) -> Config | None:
        return Config(values=self.client.get_sms_attributes()["attributes"])

    def update(self, key: str, before: Config, after: Config) -> None:
        self.create(after)

    def delete(self, key: str) -> None:
        self.client.set_sms_attributes(attributes=dict.fromkeys(self.schema, ""))
