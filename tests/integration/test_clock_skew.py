"""A worker whose clock is an hour off runs nothing early and steals nothing."""
