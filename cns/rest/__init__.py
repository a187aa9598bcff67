"""The REST API as its server and its clients both know it."""
