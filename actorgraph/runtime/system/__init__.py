"""The actors of an ActorSystem: who has which thread, what readers get, who owns what."""
