"""Jobs and schedules of other schedulers, translated into those of Mainspring. Pure: one module per source."""
