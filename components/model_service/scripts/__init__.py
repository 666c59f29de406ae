"""Programs that travel into pods by ConfigMap: standard library only, no import of anything here."""
