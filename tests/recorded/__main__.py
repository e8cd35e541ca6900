"""Records what users see of this version, and compares another one with it: nothing of either names an inner module.

python -m tests.recorded record  [--only questions,exports,requests,shell]
python -m tests.recorded compare [--only …] [--exact] [--briefly]

`compare` prints every difference and ends with 1 if there are any. Without `--exact` floats may differ by 1e-9 of the
range of their parameter, or of their own size where that is more than 1; digests of files with the model's numbers are
then not looked at. `--briefly` compares what takes seconds, as the tests do: every seventh question, all exports, what
the server answers without computing, the help of every command.
"""

import argparse
import os
import sys
import time

# One thread, as the command line has it: torch reads this at its import.
os.environ["OMP_NUM_THREADS"] = "1"

from tests.recorded import files


def main() -> int:
    """Record or compare; 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("--only", default=",".join(files.PARTS), help="Parts with commas between them.")
    parser.add_argument("--exact", action="store_true", help="Compare floats to the last bit.")
    parser.add_argument("--briefly", action="store_true", help="Compare a part that takes seconds.")
    given = parser.parse_args()
    found = []
    for part in given.only.split(","):
        if part not in files.PARTS:
            parser.error(f"`--only` takes {', '.join(files.PARTS)}, but got {part!r}.")
        began = time.monotonic()
        if given.what == "record":
            print(f"{part}: {files.record(part)} recorded", end="", flush=True)
        else:
            differing = files.compare(part, exact=given.exact, briefly=given.briefly)
            found += differing
            print("".join(f"{line}\n" for line in differing) + f"{part}: {len(differing)} differences", end="")
        print(f" in {time.monotonic() - began:.0f} s", flush=True)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
