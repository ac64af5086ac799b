"""Mainspring in other frameworks. Each module needs the packages of its framework, and is imported only where used."""
