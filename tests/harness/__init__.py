"""What the tests share: real servers, real worker processes, and waiting for facts instead of sleeping."""
