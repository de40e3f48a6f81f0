"""Frozen data types that every layer shares. No decisions here."""
