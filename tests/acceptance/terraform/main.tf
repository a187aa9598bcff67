# A resource of each kind that the provider makes here, the example as a module, and a change of each resource.

variable "endpoint" {}
variable "web_endpoint" {}
variable "is_changed" { default = false }

provider "aws" {
  region                  = "us-east-1"
  skip_metadata_api_check = true

  endpoints {
    sns = var.endpoint
    sqs = var.endpoint
    sts = var.endpoint
  }
}

module "example" {
  source   = "./example"
  endpoint = var.endpoint
}
output "topic" { value = module.example.topic_arn }
output "queue" { value = module.example.queue_url }

data "aws_caller_identity" "self" {}
data "aws_sns_topic" "news" { name = reverse(split(":", aws_sns_topic.news.arn))[0] }
data "aws_sqs_queue" "main" { name = reverse(split("/", aws_sqs_queue.main.id))[0] }

locals {
  role    = "arn:aws:iam::123456789012:role/feedback"
  retries = { minDelayTarget = 5, maxDelayTarget = 20, numRetries = var.is_changed ? 6 : 5 }
  all_of_retries = merge(local.retries, {
    numNoDelayRetries = 1, numMinDelayRetries = 2, numMaxDelayRetries = 0, backoffFunction = "arithmetic"
  })
  tags = var.is_changed ? { b = "3", c = "" } : { a = "1", b = "2" }
}

resource "aws_sns_topic" "news" {
  name                             = "tf-news"
  display_name                     = var.is_changed ? "News & more" : "News"
  kms_master_key_id                = var.is_changed ? null : "alias/aws/sns"
  signature_version                = var.is_changed ? 1 : 2
  tracing_config                   = var.is_changed ? "PassThrough" : "Active"
  sqs_success_feedback_role_arn    = local.role
  sqs_success_feedback_sample_rate = var.is_changed ? 7 : 100
  tags                             = local.tags
  delivery_policy = jsonencode({
    http = { defaultHealthyRetryPolicy = local.all_of_retries, disableSubscriptionOverrides = false }
  })
}

resource "aws_sns_topic_policy" "news" {
  arn = aws_sns_topic.news.arn
  policy = jsonencode({ Version = "2012-10-17", Statement = [{
    Effect    = "Allow"
    Principal = { AWS = var.is_changed ? "*" : data.aws_caller_identity.self.account_id }
    Action    = var.is_changed ? ["SNS:Publish", "SNS:Subscribe"] : ["sns:Publish"]
    Resource  = aws_sns_topic.news.arn
    Condition = { ArnLike = { "aws:SourceArn" = "arn:aws:s3:::<a>&<b>" } }
  }] })
}

resource "aws_sns_topic" "fifo" {
  name                        = "tf-news.fifo"
  fifo_topic                  = true
  fifo_throughput_scope       = var.is_changed ? "MessageGroup" : "Topic"
  content_based_deduplication = var.is_changed
  archive_policy              = var.is_changed ? "{}" : jsonencode({ MessageRetentionPeriod = 30 })
}

resource "aws_sqs_queue" "main" {
  name                              = "tf-main"
  delay_seconds                     = var.is_changed ? 0 : 90
  max_message_size                  = var.is_changed ? 262144 : 2048
  message_retention_seconds         = 86400
  receive_wait_time_seconds         = var.is_changed ? 20 : 10
  visibility_timeout_seconds        = var.is_changed ? 45 : 0
  kms_master_key_id                 = "alias/aws/sqs"
  kms_data_key_reuse_period_seconds = var.is_changed ? 600 : 300
  tags                              = local.tags
}

resource "aws_sqs_queue" "dead" {
  name                    = "tf-dead"
  sqs_managed_sse_enabled = var.is_changed
}

resource "aws_sqs_queue" "fifo" {
  name                        = "tf-main.fifo"
  fifo_queue                  = true
  content_based_deduplication = var.is_changed
  deduplication_scope         = var.is_changed ? "queue" : "messageGroup"
  fifo_throughput_limit       = var.is_changed ? "perQueue" : "perMessageGroupId"
}

resource "aws_sqs_queue_policy" "main" {
  queue_url = aws_sqs_queue.main.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [{
    Effect    = "Allow"
    Principal = { Service = "sns.amazonaws.com" }
    Action    = var.is_changed ? ["sqs:SendMessage", "SQS:ReceiveMessage"] : ["sqs:SendMessage"]
    Resource  = aws_sqs_queue.main.arn
    Condition = { ArnEquals = { "aws:SourceArn" = aws_sns_topic.news.arn } }
  }] })
}

resource "aws_sqs_queue_redrive_policy" "main" {
  queue_url      = aws_sqs_queue.main.id
  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn, maxReceiveCount = var.is_changed ? 5 : 4 })
}

resource "aws_sqs_queue_redrive_allow_policy" "dead" {
  queue_url = aws_sqs_queue.dead.id
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = concat([aws_sqs_queue.main.arn], var.is_changed ? ["${aws_sqs_queue.main.arn}-2"] : [])
  })
}

resource "aws_sns_topic_subscription" "queue" {
  topic_arn            = aws_sns_topic.news.arn
  protocol             = "sqs"
  endpoint             = aws_sqs_queue.main.arn
  raw_message_delivery = var.is_changed
  redrive_policy       = var.is_changed ? null : jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn })
  filter_policy_scope  = var.is_changed ? "MessageBody" : "MessageAttributes"
  filter_policy = var.is_changed ? jsonencode({ a = { b = [{ "anything-but" = ["c"] }] } }) : jsonencode({
    colour = ["red", { prefix = "dark-" }], price = [{ numeric = [">=", 0.50, "<", 1e2] }]
  })
}

resource "aws_sns_topic_subscription" "archive" {
  topic_arn = aws_sns_topic.fifo.arn
  protocol  = "sqs"
  endpoint  = aws_sqs_queue.fifo.arn
  replay_policy = var.is_changed ? null : jsonencode({
    PointType = "Timestamp", StartingPoint = aws_sns_topic.fifo.beginning_archive_time
  })
}

resource "aws_sns_topic_subscription" "web" {
  topic_arn              = aws_sns_topic.news.arn
  protocol               = "http"
  endpoint               = var.web_endpoint
  endpoint_auto_confirms = true
  delivery_policy        = jsonencode({ healthyRetryPolicy = local.retries })
}

resource "aws_sns_platform_application" "phones" {
  name                             = "tf-phones"
  platform                         = "GCM"
  platform_credential              = var.is_changed ? "another key" : "key"
  event_endpoint_created_topic_arn = var.is_changed ? null : aws_sns_topic.news.arn
  failure_feedback_role_arn        = local.role
  success_feedback_role_arn        = local.role
  success_feedback_sample_rate     = var.is_changed ? 99 : 100
}

resource "aws_sns_sms_preferences" "all" {
  default_sms_type                      = var.is_changed ? "Transactional" : "Promotional"
  monthly_spend_limit                   = 1
  default_sender_id                     = "Sender"
  delivery_status_iam_role_arn          = local.role
  delivery_status_success_sampling_rate = var.is_changed ? 75 : 50
  usage_report_s3_bucket                = "some-bucket"
}
