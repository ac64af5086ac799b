"""The namespaces of a Scheduler: `scheduler.schedules`, `scheduler.queues` and the others, one file each."""
