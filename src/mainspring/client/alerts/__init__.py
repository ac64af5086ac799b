"""Alert rules beyond their verbs: checking destinations, testing a rule, and sending while no worker can."""
