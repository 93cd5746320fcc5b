"""What people are told, on its way to them: who, in which words, through which channel."""
