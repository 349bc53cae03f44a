"""What the command line prints: tables and numbers in words, for a terminal of any width and for a pipe."""
