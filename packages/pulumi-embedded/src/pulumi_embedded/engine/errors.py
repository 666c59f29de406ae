"""What a verb raises when the user has to do something: fact, consequence, remedy. Shown as `error: …`, never with a traceback."""


class EngineError(Exception):
    """A verb cannot be carried out for a reason that the user can act on."""
