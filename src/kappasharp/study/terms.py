"""What a study takes where nobody says otherwise, and the words of an answer: all of it that `--help` needs."""

# Where studies are kept: the variable that may name a database, and the one that is used without it.
ENVIRONMENT, DEFAULT_STORAGE = "KAPPASHARP_STORAGE", "sqlite:///kappasharp.db"
DEFAULT_VOTER = "me"
# The name of a program that answers, and how many questions it gets.
JUDGE, JUDGED_QUESTIONS = "judge", 30
# What docs/results supports today: no correction has beaten the plain baseline there, and of the presets `modern` has
# the better means.
DEFAULT_METHOD, DEFAULT_PRESET = "baseline", "modern"
# How many duels settle a study.
DUELS = 5
# The simulated people of `problems.oracle`.
PERSONS = (
    "paper", "exact", "careless", "hesitant", "biased", "human", "shaky", "hasty", "timed", "interrupted", "absent",
)  # fmt: skip
# What may be answered to a pair.
WORDS = ("a", "b", "tie", "skip")
