"""Frozen data: the vocabulary that every layer shares. No decisions here."""
