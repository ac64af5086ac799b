"""What the product is built from: `python -m supply` writes the bill of materials of an installed Mainspring."""
