"""Every hot query reads what it returns and little else, however many other jobs are stored."""
