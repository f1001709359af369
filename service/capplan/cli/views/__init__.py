"""Answers as text: one module for each kind of answer, none of which decides anything."""
