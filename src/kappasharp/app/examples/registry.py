"""Ready examples: a space and a renderer each, so that a newcomer compares within seconds."""

from typing import Any, NamedTuple

from kappasharp.app.examples import cabin, image_filter, pid


class Example(NamedTuple):
    """What `kappasharp serve --example` shows."""

    study_name: str
    space: dict[str, Any]
    renderer: str


EXAMPLES = {
    "pid": Example("PID controller", pid.SPACE, "kappasharp.app.examples.pid:render"),
    "filter": Example("Photo filter", image_filter.SPACE, "kappasharp.app.examples.image_filter:render"),
    "cabin": Example("Wooden cabin", cabin.SPACE, "kappasharp.app.examples.cabin:render"),
}
