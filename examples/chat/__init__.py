"""A chat for people in a browser: a FastAPI application, its graph, its login and one page."""
