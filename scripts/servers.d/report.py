"""Prints results.

In: cells as text. Out: Markdown on standard output.
Guarantee: a table is printed at once.
"""


def table(head, rows):
    """Prints a table."""
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)
