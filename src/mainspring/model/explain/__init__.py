"""Why a job does not run: the facts, the reasons and the explanation. Pure."""
