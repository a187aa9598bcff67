"""The statements of the five seed documents, row by row: state today, and the command that shows it.

python -m tests.seeds 000          run the commands of a seed's rows, and print the table (`make seeds SEED=000`)
python -m tests.seeds --page       write docs/seeds.md
"""
