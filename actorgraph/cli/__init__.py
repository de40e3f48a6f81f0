"""Commands for the shell: the codemod that rewrites a program's LangGraph imports."""
