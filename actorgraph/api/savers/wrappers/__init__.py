"""Savers that wrap another saver: metrics, size limits, retries, access control, audit log."""
