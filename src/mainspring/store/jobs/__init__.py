"""Verbs on jobs: insert, claim, renew, finish, edit, rescue, prune."""
