"""What kappasharp raises. Each class is also a built-in error, so callers may catch either."""


class KappaSharpError(Exception):
    """Base of every error that kappasharp raises on purpose."""


class InvalidValueError(KappaSharpError, ValueError):
    """An argument's value breaks a rule."""


class InvalidTypeError(KappaSharpError, TypeError):
    """An argument is of a kind that the call cannot use."""


class UnknownNameError(KappaSharpError, ValueError):
    """A method, preset or problem of that name does not exist."""
