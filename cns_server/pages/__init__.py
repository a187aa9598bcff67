"""The pages under `/ui`, for people: queues, topics, accounts, health. They work without scripts and load nothing from
other hosts. What they do, the REST API does, as the person who signed in."""
