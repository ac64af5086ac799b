"""Looking at stored things: searching, explaining, problems and schedules."""
