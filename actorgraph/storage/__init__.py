"""What savers and stores share: connections to databases, time limits, their errors."""
