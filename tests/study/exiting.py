"""A module that ends whoever imports it, as a script without a guard does."""

import sys

sys.exit("three\nlines\nof usage")
