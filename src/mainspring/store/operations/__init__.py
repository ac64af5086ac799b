"""Operations over many jobs: previewing, storing and carrying them out."""
