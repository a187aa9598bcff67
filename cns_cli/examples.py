"""Examples for the help of commands whose own text has none."""

from __future__ import annotations

EXAMPLES = {
    "up": "cns up --data data --port 6059",
    "receiver": "cns receiver --port 9000 --confirm auto",
    "logs": "cns logs arn:aws:sns:us-east-1:123456789012:news --failures",
    "check": "cns check --data data",
    "api": "CNS_STORE=cassandra cns api",
    "worker": "CNS_STORE=cassandra cns worker --role consumer",
    "queue redrive": "cns queue redrive orders-dead --rate 50",
    "dead-letters redrive": "cns dead-letters redrive orders-dead --rate 50",
    "account create": "cns account create",
    "account show": "cns account show 123456789012",
    "account list": "cns account list",
    "account name": "cns account name 123456789012 'Ada Lovelace'",
    "account password": "cns account password 123456789012",
    "account rotate": "cns account rotate 123456789012",
    "account delete": "cns account delete 123456789012",
    "account user add": "cns account user add 123456789012 alice",
    "account user list": "cns account user list 123456789012",
    "account user disable": "cns account user disable 123456789012 alice",
    "account user enable": "cns account user enable 123456789012 alice",
    "account user delete": "cns account user delete 123456789012 alice",
    "account user key add": "cns account user key add 123456789012 alice",
    "account user key disable": "cns account user key disable 123456789012 alice AKIAIOSFODNN7EXAMPLE",
    "account user key enable": "cns account user key enable 123456789012 alice AKIAIOSFODNN7EXAMPLE",
    "account user key delete": "cns account user key delete 123456789012 alice AKIAIOSFODNN7EXAMPLE",
    "operator token": "cns operator token --life 12h",
    "schema apply": "cns schema apply --replication 3",
    "schema show": "cns schema show",
    "schema check": "cns schema check",
    "outbox list": "cns outbox list --protocol sms --limit 20",
    "outbox show": "cns outbox show 8f14e45f",
    "quarantine list": "cns quarantine list",
    "quarantine show": "cns quarantine show 8f14e45f",
    "quarantine release": "cns quarantine release all",
    "sms list": "cns sms list",
    "sms opt-out": "cns sms opt-out +14155550100",
    "sms opt-in": "cns sms opt-in +14155550100",
    "pool list": "cns pool list --json",
    "pool resize": "cns pool resize delivery 4",
    "pool reset": "cns pool reset delivery",
    "redis servers list": "cns redis servers list",
    "redis servers add": "cns redis servers add second redis://10.0.0.2:6379/0",
    "redis servers remove": "cns redis servers remove second",
}
"""By the words of the command."""


def epilog(words: str) -> str | None:
    """The last line of a command's help."""
    example = EXAMPLES.get(words)
    return None if example is None else f"Example: {example}"
