"""What this service answers besides AWS's APIs, so that what was made for another emulator works here unchanged."""
