"""The command `actorgraph`, and the codemod that rewrites LangGraph imports."""
