"""Work that servers do by themselves: crons, webhooks, times to live; stored items of theirs."""
