"""Where a loop answers `/healthz` and `/metrics`, as `--serve` says it."""

from headway.problem import Exit, UserError


def listening_place(text: str) -> tuple[str, int]:
    """Address and port. Raises UserError for another form."""
    address, _, port = text.rpartition(":")
    if not address or not port.isdigit() or int(port) > 65535:
        raise UserError(
            f"--serve is {text!r}, which is no address and port.",
            "Nothing was started.",
            "Write ADDRESS:PORT, such as 127.0.0.1:8080.",
            Exit.USAGE,
        )
    return address, int(port)
