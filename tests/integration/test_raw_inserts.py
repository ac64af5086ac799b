"""Documents that any program may insert: the few required fields, their defaults, and what is wrong said on the job."""
