# A topic that delivers orders above 100 to a queue, with a dead-letter queue behind the queue and one behind the subscription.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0, < 7.0"
    }
  }
}

variable "endpoint" {
  type    = string
  default = "http://127.0.0.1:6059"
}

provider "aws" {
  region                  = "us-east-1" # keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
  skip_metadata_api_check = true

  endpoints {
    sns = var.endpoint
    sqs = var.endpoint
    sts = var.endpoint
  }
}

resource "aws_sqs_queue" "dead" {
  name                      = "placed-orders-dead"
  message_retention_seconds = 1209600
}

resource "aws_sqs_queue" "orders" {
  name                       = "placed-orders"
  visibility_timeout_seconds = 60
  receive_wait_time_seconds  = 20

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead.arn
    maxReceiveCount     = 5
  })
}

resource "aws_sns_topic" "orders" {
  name = "placed-orders"
}

resource "aws_sqs_queue_policy" "orders" {
  for_each  = { orders = aws_sqs_queue.orders, dead = aws_sqs_queue.dead }
  queue_url = each.value.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "sns.amazonaws.com" }
      Action    = "sqs:SendMessage"
      Resource  = each.value.arn
      Condition = { ArnEquals = { "aws:SourceArn" = aws_sns_topic.orders.arn } }
    }]
  })
}

resource "aws_sns_topic_subscription" "orders" {
  topic_arn            = aws_sns_topic.orders.arn
  protocol             = "sqs"
  endpoint             = aws_sqs_queue.orders.arn
  raw_message_delivery = true
  filter_policy        = jsonencode({ total = [{ numeric = [">", 100] }] })
  redrive_policy       = jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn })
  depends_on           = [aws_sqs_queue_policy.orders]
}

output "queue_url" {
  value = aws_sqs_queue.orders.id
}

output "topic_arn" {
  value = aws_sns_topic.orders.arn
}
