"""Tables and statements of mobile push and SMS in Cassandra.

`platform_applications` and `mobile_endpoints` are the truth, changed by conditional writes; `mobile_tokens` assigns
tokens to endpoints. The other tables are indices, whose entries may have no record.
"""

from __future__ import annotations

from cns_common.cassandra.region_scan import RegionScan
from cns_common.cassandra.session import Statement

TABLES = (
    "CREATE TABLE IF NOT EXISTS platform_applications(arn text PRIMARY KEY, id text, version int, sealed blob)",
    "CREATE TABLE IF NOT EXISTS applications_of_account(account text, region text, arn text, id text,"
    " PRIMARY KEY((account, region), arn, id))",
    "CREATE TABLE IF NOT EXISTS dropped_applications(shard int, id text, arn text, PRIMARY KEY(shard, id))",
    "CREATE TABLE IF NOT EXISTS mobile_endpoints(id text PRIMARY KEY, version int, record blob)",
    "CREATE TABLE IF NOT EXISTS mobile_tokens(application text, device blob, endpoint text,"
    " PRIMARY KEY((application, device)))",
    "CREATE TABLE IF NOT EXISTS endpoints_of_application(application text, bucket text, id text,"
    " PRIMARY KEY((application, bucket), id))",
    "CREATE TABLE IF NOT EXISTS sms_attributes(account text, region text, name text, value text,"
    " PRIMARY KEY((account, region), name))",
    "CREATE TABLE IF NOT EXISTS opted_out_numbers(account text, bucket int, number text,"
    " PRIMARY KEY((account, bucket), number))",
    # a few rows per account (`cns.sms.sandbox.NUMBERS_MAX`)
    "CREATE TABLE IF NOT EXISTS sandbox_numbers(account text, region text, number text, version int, record blob,"
    " PRIMARY KEY((account, region), number))",
)

# -- applications -----------------------------------------------------------------------------------------------------

GET_APPLICATION = Statement("SELECT id, sealed FROM platform_applications WHERE arn = ?")
GET_APPLICATIONS = Statement("SELECT arn, id, sealed FROM platform_applications WHERE arn IN ?")
INSERT_APPLICATION = Statement(
    "INSERT INTO platform_applications(arn, id, version, sealed) VALUES (?, ?, ?, ?) IF NOT EXISTS", idempotent=False
)
REPLACE_APPLICATION = Statement(
    "UPDATE platform_applications SET version = ?, sealed = ? WHERE arn = ? IF id = ? AND version = ?",
    idempotent=False,
)
DELETE_APPLICATION = Statement("DELETE FROM platform_applications WHERE arn = ? IF id = ?", idempotent=False)

ENTER_APPLICATION = Statement("INSERT INTO applications_of_account(account, region, arn, id) VALUES (?, ?, ?, ?)")
LEAVE_APPLICATION = Statement(
    "DELETE FROM applications_of_account WHERE account = ? AND region = ? AND arn = ? AND id = ?"
)
APPLICATION_REGIONS = RegionScan("applications_of_account", "account", "region")
LIST_APPLICATIONS = Statement(
    "SELECT arn, id FROM applications_of_account WHERE account = ? AND region = ? AND arn > ? LIMIT ?"
)

MARK_DROPPED = Statement("INSERT INTO dropped_applications(shard, id, arn) VALUES (0, ?, ?)")
DROPPED = Statement("SELECT id, arn FROM dropped_applications WHERE shard = 0 LIMIT ?")
FORGET_DROPPED = Statement("DELETE FROM dropped_applications WHERE shard = 0 AND id = ?")

# -- endpoints --------------------------------------------------------------------------------------------------------

GET_ENDPOINT = Statement("SELECT record FROM mobile_endpoints WHERE id = ?")
GET_ENDPOINTS = Statement("SELECT id, record FROM mobile_endpoints WHERE id IN ?")
# an id is used once; its timestamp is below that of every conditional write, whatever the writer's clock
INSERT_ENDPOINT = Statement("INSERT INTO mobile_endpoints(id, version, record) VALUES (?, ?, ?) USING TIMESTAMP 1")
UNDO_INSERT_ENDPOINT = Statement("DELETE FROM mobile_endpoints USING TIMESTAMP 1 WHERE id = ?")
REPLACE_ENDPOINT = Statement(
    "UPDATE mobile_endpoints SET version = ?, record = ? WHERE id = ? IF version = ?", idempotent=False
)
DELETE_ENDPOINT = Statement("DELETE FROM mobile_endpoints WHERE id = ? IF version = ?", idempotent=False)

CLAIM = Statement(
    "INSERT INTO mobile_tokens(application, device, endpoint) VALUES (?, ?, ?) IF NOT EXISTS", idempotent=False
)
HOLDER = Statement("SELECT endpoint FROM mobile_tokens WHERE application = ? AND device = ?")
TAKE_OVER = Statement(
    "UPDATE mobile_tokens SET endpoint = ? WHERE application = ? AND device = ? IF endpoint = ?", idempotent=False
)
RELEASE = Statement("DELETE FROM mobile_tokens WHERE application = ? AND device = ? IF endpoint = ?", idempotent=False)

ENTER_ENDPOINT = Statement(
    "INSERT INTO endpoints_of_application(application, bucket, id) VALUES (?, ?, ?) USING TIMESTAMP 1"
)
LEAVE_ENDPOINT = Statement(
    "DELETE FROM endpoints_of_application USING TIMESTAMP 2 WHERE application = ? AND bucket = ? AND id = ?"
)
IDS_OF_APPLICATION = Statement(
    "SELECT id FROM endpoints_of_application WHERE application = ? AND bucket = ? AND id > ? LIMIT ?"
)

# -- SMS --------------------------------------------------------------------------------------------------------------

SMS_ATTRIBUTES = Statement("SELECT name, value FROM sms_attributes WHERE account = ? AND region = ?")
SET_SMS_ATTRIBUTE = Statement("INSERT INTO sms_attributes(account, region, name, value) VALUES (?, ?, ?, ?)")
UNSET_SMS_ATTRIBUTE = Statement("DELETE FROM sms_attributes WHERE account = ? AND region = ? AND name = ?")
IS_OPTED_OUT = Statement("SELECT number FROM opted_out_numbers WHERE account = ? AND bucket = ? AND number = ?")
OPT_OUT = Statement("INSERT INTO opted_out_numbers(account, bucket, number) VALUES (?, ?, ?)")
OPT_IN = Statement("DELETE FROM opted_out_numbers WHERE account = ? AND bucket = ? AND number = ?")
PAGE_OF_OPTED_OUT = Statement(
    "SELECT number FROM opted_out_numbers WHERE account = ? AND bucket = ? AND number > ? LIMIT ?"
)
GET_NUMBER = Statement("SELECT record FROM sandbox_numbers WHERE account = ? AND region = ? AND number = ?")
INSERT_NUMBER = Statement(
    "INSERT INTO sandbox_numbers(account, region, number, version, record) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS",
    idempotent=False,
)
REPLACE_NUMBER = Statement(
    "UPDATE sandbox_numbers SET version = ?, record = ? WHERE account = ? AND region = ? AND number = ? IF version = ?",
    idempotent=False,
)
REMOVE_NUMBER = Statement(
    "DELETE FROM sandbox_numbers WHERE account = ? AND region = ? AND number = ? IF EXISTS", idempotent=False
)
PAGE_OF_NUMBERS = Statement(
    "SELECT record FROM sandbox_numbers WHERE account = ? AND region = ? AND number > ? LIMIT ?"
)
