"""`python -m actorgraph`: the command `actorgraph`."""

import sys

from actorgraph.cli.command_line import main

if __name__ == "__main__":
    sys.exit(main())
