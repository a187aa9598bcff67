"""The views of pages: values made from events, explanations and forms, without I/O."""
