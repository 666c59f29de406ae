"""After a promotion: evidence that a serving version became worse, or that its inputs changed, which may be looked at for ever."""
