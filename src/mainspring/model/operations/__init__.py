"""Operations: one verb on many jobs, as it is asked for and as it is told. Pure."""
