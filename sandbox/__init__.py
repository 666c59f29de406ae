"""The platform in miniature on one machine. Nothing outside this package imports it but `headway sandbox`."""
