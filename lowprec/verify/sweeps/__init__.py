"""`lowprec exhaustive`: every binary32 operand of a cast, on the processes of a machine or of a cluster."""
