"""What both services need and neither owns: settings, clock, errors, storage kernel, the AWS front door."""
