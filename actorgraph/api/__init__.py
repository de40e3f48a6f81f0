"""What programs call: graphs, savers, the blocking facade. No decisions of a run live here."""
