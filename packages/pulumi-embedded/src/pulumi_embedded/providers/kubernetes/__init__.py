"""The kubernetes provider of the embedded engine: objects by server-side apply, readiness awaited, Helm releases recorded."""
