"""The commands of the command line, one topic a file. Each imports what it needs when it runs.

Floor 5.
"""
